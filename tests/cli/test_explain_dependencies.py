"""`wakeboard explain`, `graph` and `check` name what schedules and runs that depend on others wait for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from wakeboard.board.pages.schedules import read_list
from wakeboard.dependencies import queries as dependencies
from wakeboard.dependencies.queries import read_blocked_schedules
from wakeboard.store.connection import connect
from wakeboard.views.queries.schedule_selection import ScheduleFilter
from wakeboard.views.queries.schedule_state import schedule_states

if TYPE_CHECKING:
    from tests.cli.conftest import Cli, Explain
    from tests.cli.sample_store import SampleStore


def declare_after(served: SampleStore, child: int, parent: int | None, name: str) -> None:
    served.sql(
        "insert into wakeboard.schedule_dependencies values (%s, (select count(*) + 1 from"
        " wakeboard.schedule_dependencies where definition_id = %s), %s, %s, 'Succeeded', 'Same')",
        *(child, child, name, parent),
    )


def test_a_run_that_waits_for_others_names_them(served: SampleStore, explain: Explain, cli: Cli):
    pay = served.enqueue()
    ship = served.enqueue(after=[pay])
    assert "due after other runs" in cli("runs").out
    assert " 2999-" not in cli("run", str(ship)).out
    assert explain(ship) == [f"run {ship} of ping is queued.", f"It waits for run {pay} of ping, which is queued."]
    served.sql("update wakeboard.job_runs set status = 'dead', dead_at = now() where id = %s", pay)
    assert explain(ship)[1:] == [
        f"It waits for run {pay} of ping, which is dead; `wakeboard retry {pay}` continues it."
    ]
    served.sql("select wakeboard.discard(%s)", [pay])
    assert explain(ship)[1:] == [
        f"It waits for run {pay} of ping, which was discarded; `wakeboard replay {pay}` continues it."
    ]


def test_a_schedule_that_runs_after_others_says_what_it_waits_for(served: SampleStore, explain: Explain, cli: Cli):
    extract, transform = served.add_schedule("extract"), served.add_schedule("transform", schedule=None)
    declare_after(served, transform, extract, "extract")
    declare_after(served, transform, None, "rates")
    served.sql(
        "set search_path = pg_catalog, wakeboard, pg_temp;"
        "insert into job_runs (job_type, definition_id, scheduled_for, trigger, dead_at, status)"
        f" values ('ping', {extract}, '2026-01-05', 'tick', now(), 'dead'); reset search_path"
    )
    run = served.sql("select max(id) from wakeboard.job_runs")[0][0]
    name = "billing/transform"
    found = explain(name)
    assert found[:4] == [
        f"schedule {name} is active.",
        "It runs after extract and rates, at the same ticks.",
        f"It waits for run {run} of extract, which is dead; `wakeboard retry {run}` continues it.",
        "It waits for rates, which does not exist in its namespace.",
    ]
    listed = next(line.split() for line in cli("schedules").lines if "billing/transform" in line)
    assert listed[1:5] == ["after", "extract,", "rates", "blocked"], "its cadence, and no next tick of its own"
    tree = cli("graph").lines
    assert tree[0].startswith("billing/extract [")
    assert tree[1] == "└─ billing/transform: It waits for rates, which does not exist in its namespace."


@pytest.mark.parametrize("state", ["waits", "in a cycle", "suspended", "paused"])
def test_every_view_agrees_on_which_schedules_are_blocked(served: SampleStore, cli: Cli, state: str):
    extract, load = served.add_schedule("extract"), served.add_schedule("load", schedule=None)
    declare_after(served, load, load if state == "in a cycle" else None, "load" if state == "in a cycle" else "gone")
    if state == "suspended":
        served.sql("update wakeboard.job_definitions set suspended = true where id = %s", load)
    if state == "paused":
        served.sql("select wakeboard.pause(%s)", f"schedule:{load}")

    async def read_views() -> list[list[str]]:
        async with await connect(served.conn.info.dsn) as conn:
            listed, overview = await read_list(conn, ScheduleFilter(), "name", None), await read_blocked_schedules(conn)
            states = await schedule_states(conn, [extract, load])
        return [
            [item.schedule.name for item in listed.items if item.blocked],
            [each.name for each in overview],
            [each.name for each in states if each.waiting_for],
            [row["name"] for row in await asyncio.to_thread(lambda: cli("schedules", "--json").json) if row["blocked"]],
        ]

    assert asyncio.run(read_views()) == [["load"] if state in {"waits", "in a cycle"} else []] * 4


def test_blocked_schedules_are_found_behind_others_that_may_be(served: SampleStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dependencies, "_CANDIDATES", 1)
    for name in ("a", "b", "c"):
        declare_after(served, served.add_schedule(name, schedule=None), None, "gone")
    served.sql("update wakeboard.job_definitions set suspended = true where name = 'a'")

    async def first() -> list[str]:
        async with await connect(served.conn.info.dsn) as conn:
            return [each.name for each in await read_blocked_schedules(conn, most=1)]

    assert asyncio.run(first()) == ["b"]


def test_a_cycle_is_shown(served: SampleStore, explain: Explain, cli: Cli):
    first, second = served.add_schedule("first", schedule=None), served.add_schedule("second", schedule=None)
    declare_after(served, first, second, "second")
    declare_after(served, second, first, "first")
    assert "It waits for itself: second runs after it. Remove one of them from `after`." in explain("billing/first")
    found = [each for each in cli("check", "--json").json if each["check"] == "dependencies"]
    assert [each["level"] for each in found] == ["fail", "fail"]
    assert found[0]["message"].startswith("billing/first is blocked. It waits for itself: second runs after it.")
    tree = cli("graph").lines
    words = "It waits for itself: {} runs after it. Remove one of them from `after`."
    assert tree == [
        f"billing/first: {words.format('second')}",
        f"└─ billing/second: {words.format('first')}",
        "   └─ billing/first (see above)",
    ]
    assert cli("graph", "--mermaid").lines == [
        "flowchart LR",
        f'  s{first}["billing/first"]',
        f'  s{second}["billing/second"]',
        f"  s{second} --> s{first}",
        f"  s{first} --> s{second}",
    ]
