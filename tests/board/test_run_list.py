"""The list of runs finds exactly the runs that fit a search, page by page, at a bounded cost."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.rows import dict_row, scalar_row
from psycopg.sql import SQL, Composed

from testbed.generated_runs import fill
from wakeboard.actions.queries import run_preview
from wakeboard.actions.queries.run_preview import preview_runs
from wakeboard.actions.queries.run_selection import RunQuery, ids_of_selected
from wakeboard.errors import InvalidValue
from wakeboard.store.connection import connect
from wakeboard.views.queries import run_list
from wakeboard.views.queries.run_counts import count_runs, known_names
from wakeboard.views.queries.run_list import position, read_run_page
from wakeboard.views.rules.run_search import parse_run_search

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from tests.postgres_servers import PostgresServer
    from wakeboard.store.connection import AsyncConnection

    Fits = Callable[[dict[str, Any]], bool]

pytestmark = pytest.mark.anyio

HISTORY, LIVE = 3000, 1000


@pytest.fixture(scope="module")
def filled(_postgres_servers: Any) -> Iterator[str]:
    """The superuser's DSN of a database with 4,000 runs, which tests only read."""
    server: PostgresServer = _postgres_servers.get("embedded")
    with server.migrated_database() as dsn:
        with psycopg.connect(dsn, autocommit=True) as conn:
            fill(conn, history=HISTORY, live=LIVE, schedules=10)
        yield dsn


@pytest.fixture
async def conn(filled: str) -> AsyncIterator[AsyncConnection]:
    async with await connect(filled) as conn:
        yield conn


@pytest.fixture(scope="module")
def all_runs(filled: str) -> list[dict[str, Any]]:
    """All runs as dicts, newest first."""
    with psycopg.connect(filled) as conn, conn.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute("select *, now() as now from wakeboard.all_runs order by id desc").fetchall()
    for row in rows:
        row["status"] = "discarded" if row["status"] == "dead" and row["finished_at"] else row["status"]
        row["namespace"] = row["schedule"].partition("/")[0] if row["schedule"] else None
    return rows


SEARCHES: list[tuple[str, Fits]] = [
    ("", lambda _: True),
    ("status:dead", lambda run: run["status"] == "dead"),
    ("status:failed", lambda run: run["status"] == "failed"),
    ("status:running", lambda run: run["status"] == "running"),
    ("status:queued", lambda run: run["status"] == "queued"),
    ("status:succeeded", lambda run: run["status"] == "succeeded"),
    ("status:discarded", lambda run: run["status"] == "discarded"),
    ("status:skipped", lambda run: run["status"] == "skipped"),
    ("status:dead,discarded,running", lambda run: run["status"] in {"dead", "discarded", "running"}),
    ("-status:queued,succeeded", lambda run: run["status"] not in {"queued", "succeeded"}),
    ("type:send_*", lambda run: run["job_type"] == "send_mail"),
    ("type:send_mail,charge_card", lambda run: run["job_type"] in {"send_mail", "charge_card"}),
    ("-type:send_mail", lambda run: run["job_type"] != "send_mail"),
    ("queue:def* trigger:tick", lambda run: run["trigger"] == "tick"),
    ("queue:other", lambda _: False),
    ("schedule:billing/*", lambda run: run["namespace"] == "billing"),
    ("schedule:schedule-4", lambda run: (run["schedule"] or "").endswith("/schedule-4")),
    ("schedule:billing/* status:dead", lambda _: False),
    ("schedule:no/such", lambda _: False),
    ("-schedule:*", lambda run: run["schedule"] is None),
    ("-schedule:billing/*", lambda run: run["namespace"] != "billing"),
    ("schedule:ops/* -status:succeeded", lambda run: run["namespace"] == "ops" and run["status"] != "succeeded"),
    ("error:BANK", lambda run: run["error_type"] is not None),
    ("error:timeouterror -status:dead", lambda run: run["error_type"] is not None and run["status"] != "dead"),
    ("-error:bank", lambda run: run["error_type"] is None),
    ("payload.customer:42", lambda run: run["payload"]["customer"] == 42),
    ("payload.customer:42,4*", lambda run: str(run["payload"]["customer"]).startswith("4")),
    ("-payload.customer:42", lambda run: run["payload"]["customer"] != 42),
    ("payload.nothing:42", lambda _: False),
    ("generation:1", lambda run: run["definition_generation"] == 1),
    ("-generation:1", lambda run: run["definition_generation"] != 1),
    ("priority:3 -attempts:0,1", lambda run: run["priority"] == 3 and run["attempts"] > 1),
    ("attempts:>0", lambda run: run["attempts"] > 0),
    ("attempts:1.. priority:<=3", lambda run: run["attempts"] >= 1),
    ("attempts:..0,2..*", lambda run: run["attempts"] != 1),
    ("-attempts:>=1", lambda run: run["attempts"] == 0),
    ("priority:<3,>3", lambda run: run["priority"] != 3),
    ("generation:1..2", lambda run: run["definition_generation"] in {1, 2}),
    ("-generation:<5", lambda run: run["definition_generation"] is None),
    ("worker:no-such", lambda _: False),
    ("id:5,3005", lambda run: run["id"] in {5, 3005}),
    ("limit:openai", lambda _: False),
    ("uuid:0", lambda run: str(run["uuid"]).startswith("0")),
    ("mail", lambda run: run["job_type"] == "send_mail"),
    ("billing", lambda run: run["namespace"] == "billing"),
    ("3005", lambda run: run["id"] == 3005),
    ("trigger:application status:failed type:render_report", lambda run: run["status"] == "failed"),
]  # fmt: skip


async def read_ids(conn: AsyncConnection, text: str, *, most: int = 1000, **how: Any) -> list[int]:
    """The ids of all pages."""
    search = parse_run_search(text)
    assert not search.problem
    ids: list[int] = []
    after = None
    for _ in range(most):
        asked: dict[str, Any] = {"namespaces": None, "count": 50, **how}
        found = await read_run_page(conn, search, after=after, **asked)
        ids += [run.id for run in found.runs]
        after = found.older
        if after is None:
            return ids
        assert str(position(str(after))) == str(after)
    raise AssertionError(f"more than {most} pages")


@pytest.mark.parametrize(("text", "fits"), SEARCHES, ids=[text for text, _ in SEARCHES])
async def test_all_pages_together_hold_each_run_that_fits_once(
    conn: AsyncConnection, all_runs: list[dict[str, Any]], text: str, fits: Fits
):
    expected = sorted(run["id"] for run in all_runs if fits(run))

    assert sorted(await read_ids(conn, text, count=170)) == expected
    assert sorted(await read_ids(conn, text, count=170, oldest_first=True)) == expected


@pytest.mark.parametrize("text", ["", "mail", "status:dead error:bank", "schedule:billing/* payload.customer:42"])
async def test_a_page_that_stops_searching_continues_where_it_stopped(conn: AsyncConnection, text: str):
    whole = await read_ids(conn, text)

    assert await read_ids(conn, text, searched=100) == whole
    assert await read_ids(conn, text, searched=100, oldest_first=True) == await read_ids(conn, text, oldest_first=True)
    first = await read_run_page(conn, parse_run_search("payload.x:1"), namespaces=None, count=50, searched=100)
    assert (first.runs, first.searched) == ([], 200)


async def test_runs_are_listed_newest_first_and_the_other_way_round(
    conn: AsyncConnection, all_runs: list[dict[str, Any]]
):
    ids = [run["id"] for run in all_runs]

    assert await read_ids(conn, "") == ids
    assert await read_ids(conn, "", oldest_first=True) == ids[::-1]
    for text in ("status:dead", "schedule:billing/*"):
        assert await read_ids(conn, text) == (await read_ids(conn, text, oldest_first=True))[::-1]


@pytest.mark.parametrize("text", ["", "mail", "error:bank -status:discarded", "schedule:billing/*"])
async def test_the_way_back_shows_the_same_pages(conn: AsyncConnection, text: str):
    search = parse_run_search(text)
    pages = [await read_run_page(conn, search, namespaces=None, count=3)]
    for _ in range(4):
        pages.append(await read_run_page(conn, search, namespaces=None, count=3, after=pages[-1].older))

    back = pages[-1]
    for shown in reversed(pages[:-1]):
        back = await read_run_page(conn, search, namespaces=None, count=3, after=back.newer, back=True)
        assert [run.id for run in back.runs] == [run.id for run in shown.runs]
    if back.newer:
        back = await read_run_page(conn, search, namespaces=None, count=3, after=back.newer, back=True)
    assert back.newer is None
    assert [run.id for run in back.runs] == [run.id for run in pages[0].runs]


async def test_fifty_pages_have_no_gap_and_no_repeat_while_runs_are_inserted(database: str):
    with psycopg.connect(database, autocommit=True) as writer:
        fill(writer, history=1500, live=1500, schedules=3)
        before = {run_id for (run_id,) in writer.execute("select id from wakeboard.all_runs")}
        seen: list[int] = []
        after = None
        async with await connect(database) as conn:
            for _ in range(50):
                found = await read_run_page(conn, parse_run_search(""), namespaces=None, count=50, after=after)
                seen += [run.id for run in found.runs]
                after = found.older
                writer.execute("select wakeboard.enqueue('send_mail') from generate_series(1, 7)")
                writer.execute(  # a run ends: it moves from one table to the other
                    """with ended as (
                         delete from wakeboard.job_runs where id = (select min(id) from wakeboard.job_runs)
                         returning id)
                       insert into wakeboard.job_run_history
                       select (jsonb_populate_record(null::wakeboard.job_run_history,
                                                     to_jsonb(old) || jsonb_build_object('id', ended.id))).*
                         from ended, (select * from wakeboard.job_run_history where id = 7) as old"""
                )

    assert len(seen) == len(set(seen)) == 2500
    assert set(seen) == set(sorted(before, reverse=True)[:2500])


async def test_runs_that_ended_at_the_same_time_are_listed_once(database: str):
    with psycopg.connect(database, autocommit=True) as writer:
        fill(writer, history=1200, live=1, schedules=2)
        writer.execute("update wakeboard.job_run_history set finished_at = date_trunc('week', finished_at)")
        expected = {run for (run,) in writer.execute("select id from wakeboard.all_runs where schedule is not null")}
    async with await connect(database) as conn:
        for how in ({}, {"oldest_first": True}, {"searched": 90}):
            for text in ("schedule:*", "schedule:* -type:nothing"):
                seen = await read_ids(conn, text, **how)
                assert len(seen) == len(set(seen)), text
                assert set(seen) == expected, text


@pytest.mark.parametrize("most_definitions", [2, 1000])
async def test_only_runs_of_the_viewers_namespaces_are_listed_and_counted(
    conn: AsyncConnection, all_runs: list[dict[str, Any]], most_definitions: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(run_list, "MOST_DEFINITIONS", most_definitions)
    mine = frozenset({"billing"})
    expected = [run for run in all_runs if run["namespace"] == "billing"]

    for text in (
        "",
        "-type:nothing",
        "schedule:*",
        "schedule:billing/*",
        "type:*",
        "status:succeeded,cancelled,discarded",
    ):
        assert sorted(await read_ids(conn, text, namespaces=mine)) == sorted(run["id"] for run in expected)
    for text in ("schedule:shop/*", "-schedule:*", f"id:{HISTORY + 5}", "status:dead", "status:running"):
        assert await read_ids(conn, text, namespaces=mine) == []
    assert await read_ids(conn, f"id:{expected[0]['id']}", namespaces=mine) == [expected[0]["id"]]
    counts = await count_runs(conn, parse_run_search(""), namespaces=mine)
    assert sum(count.runs for count in counts.values()) == len(expected)
    names = await known_names(conn, namespaces=mine)
    assert all(name.startswith("billing/") for name in names["schedule"])
    assert await read_ids(conn, "", namespaces=frozenset({"empty"})) == []


@pytest.mark.parametrize("text", ["", "type:send_mail", "schedule:billing/*", "status:dead"])
async def test_counts_are_those_of_the_list_without_its_status(
    conn: AsyncConnection, all_runs: list[dict[str, Any]], text: str
):
    counts = await count_runs(conn, parse_run_search(text), namespaces=None)

    for status, count in counts.items():
        others = "" if text == "status:dead" else text
        assert (count.runs, count.more) == (len(await read_ids(conn, f"status:{status} {others}")), False), status


async def test_a_count_that_stopped_is_marked(conn: AsyncConnection):
    counts = await count_runs(conn, parse_run_search(""), namespaces=None, searched=500)

    assert str(counts["queued"]) == "490+"
    assert str(counts["dead"]) == str(counts["failed"]) == "9"  # these have an index
    assert str(counts["running"]) == "20"
    assert str(counts["skipped"]) == "0+"


async def test_names_for_suggestions_come_from_schedules_runs_and_payloads(conn: AsyncConnection):
    names = await known_names(conn, namespaces=None)

    assert names["type"] == ["charge_card", "import_rates", "render_report", "send_mail", "sync_orders"]
    assert names["queue"] == ["default"]
    assert {"billing/schedule-3", "billing/*", "ops/*"} <= set(names["schedule"])
    assert names["payload"] == ["customer"]


@pytest.mark.parametrize(
    "text", ["", "id", "id.1", "id.x.y", "other.1.2", "past.1.2.3", f"id.{'9' * 40}.1", "id.1." + "9" * 60]
)
async def test_an_address_that_names_no_place_is_refused(text: str):
    with pytest.raises(InvalidValue, match="the address names no position"):
        position(text)


async def test_pages_of_many_runs_read_few_blocks_and_scan_no_table(database: str, monkeypatch: pytest.MonkeyPatch):
    with psycopg.connect(database, autocommit=True) as writer:
        fill(writer, history=300_000, live=100_000)
    plans: list[tuple[str, dict[str, Any]]] = []
    plain_read = run_list.read
    text = ""

    async def explained_read(conn: Any, kind: Any, query: Any, values: Any = None) -> Any:
        composed: Composed = query if isinstance(query, Composed) else SQL(query).format()
        if "wakeboard.job_run" in composed.as_string():
            with_plan = SQL("explain (analyze, buffers, format json) ") + composed
            [plan] = await plain_read(conn, scalar_row, with_plan, values)
            plans.append((text, plan[0]["Plan"]))
        return await plain_read(conn, kind, query, values)

    monkeypatch.setattr(run_list, "read", explained_read)
    async with await connect(database) as conn:
        for text in (
            "", "status:dead", "status:failed", "status:running", "status:queued", "status:succeeded",
            "status:dead,failed", "schedule:schedule-7", "schedule:billing/*", "type:send_mail", "since:2h", "id:5",
        ):  # fmt: skip
            for namespaces in (None, frozenset({"billing"})):
                after = None
                async with conn.transaction():
                    for _ in range(3):
                        found = await read_run_page(
                            conn, parse_run_search(text), namespaces=namespaces, count=50, after=after
                        )
                        after = found.older

    assert plans
    for text, plan in plans:
        scanned = {node["Relation Name"] for node in nodes(plan) if node["Node Type"] == "Seq Scan"}
        assert not {name for name in scanned if name.startswith("job_run")}, text
        assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 20_000, text


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A node of a plan, and all below it."""
    yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes(inner)


@pytest.mark.parametrize("takes", [("queued", "failed", "dead"), ("succeeded", "cancelled", "discarded")])
async def test_previews_that_stop_early_count_and_select_each_run_once(
    conn: AsyncConnection, all_runs: list[dict[str, Any]], takes: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(run_preview, "FIRST_ROWS", 200)
    monkeypatch.setattr(run_preview, "MOST_LISTED", 5)
    monkeypatch.setattr(run_preview, "SHORTEST_SPAN", 10)
    monkeypatch.setattr(run_preview, "FIRST_SPAN", {"live": 20, "past": 12 * 3_600_000_000})
    searches = [(text, fits) for text, fits in SEARCHES if not text or text[:2] in {"ty", "-s", "sc", "-p", "id"}]
    if takes[0] == "succeeded":
        searches.append(("since:20d until:3d -type:send_mail", _ended_in_between))
    for text, fits in searches:
        expected = [run["id"] for run in all_runs if run["status"] in takes and fits(run)]
        sample, ids, previews = await _previews(conn, RunQuery(search=parse_run_search(text), takes=takes))
        assert sorted(ids) == sorted(expected), text
        assert set(sample) <= set(expected), text
        if not text:
            assert sample == expected[: len(sample)]
            assert previews > 1


def _ended_in_between(run: dict[str, Any]) -> bool:
    ended = run["finished_at"]
    ago = run["now"] - ended if ended else timedelta()
    return timedelta(days=3) < ago <= timedelta(days=20) and run["job_type"] != "send_mail"


async def _previews(conn: AsyncConnection, wanted: RunQuery) -> tuple[list[int], list[int], int]:
    """The sample of the first of many previews, the ids that all of them select, and how many previews they are."""
    ids: list[int] = []
    sample: list[int] = []
    ticks = iter(range(1_000_000))
    for previews in range(1, 100):
        async with conn.transaction():
            preview = await preview_runs(conn, wanted, budget_s=0.12, clock=lambda: next(ticks) / 100)
        query, values = await ids_of_selected(conn, replace(wanted, first=preview.first), 10_000)
        found = [run_id for (run_id,) in await (await conn.execute(query, values)).fetchall()]
        assert len(found) == preview.count
        sample = sample or [run.id for run in preview.sample]
        ids += found
        if preview.first is None:
            return sample, ids, previews
        wanted = replace(wanted, end=preview.first)
    raise AssertionError("the previews do not end")
