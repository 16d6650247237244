"""With any number of schedules, pages and commands read a bounded number of them."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pytest
from psycopg.sql import Composed

from tests.board.asgi import VIEW, Client, GrantedViewer
from wakeboard.board.pages import ROUTES
from wakeboard.cli import main
from wakeboard.health.queries import facts
from wakeboard.views.queries import rollups, run_counts, run_list, schedule_list, schedule_selection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.board.action_store import Store

pytestmark = pytest.mark.anyio

SCHEDULES: Final = 20_000
EXAMINED: Final = 500
MOST_READ: Final = 5_000  # rows of one statement
MANY: Final = """
insert into job_definitions (
  source, namespace, name, spec_hash, job_type, queue, schedule, cron_fields, next_run_at, tzdata_version, labels)
select 'file:many', 'team-' || n %% 5, 'customer-' || n, '', 'report-' || n %% 3, 'q' || n %% 2, '* * * * *', %s,
       now() + n * interval '1 minute', '2026a', jsonb_build_object('team', n %% 50)
  from generate_series(1, %s) as n
"""
EXPRESSION: Final = "1 1 1 fffffffe 1ffe 7f - -"
PAGES: Final = (
    *(f"/schedules?sort={sort}" for sort in ("name", "next", "last", "failures")),
    *(f"/schedules?state={state}" for state in ("active", "paused", "stalled", "suspended")),
    *(f"/schedules?health={health}" for health in ("failing", "late", "ok")),
    "/schedules?queue=q1&sort=next",
    "/schedules?namespace=team-1",
    "/schedules?q=team-2%2Fcustomer-1",
    "/schedules?q=customer",
    "/schedules?label=team",
    "/calendar?view=week&at=2036-01-01T00:00Z",
    "/calendar?q=customer",
    "/runs?q=schedule:team-1/customer-11",
    "/runs?q=schedule:*9",
    "/performance?dimension=schedule&q=customer",
    "/audit?schedule=team-1/customer-11",
    "/schedules/pause-matching?q=customer-11",
)
COMMANDS: Final = (
    ("schedules", "-n", "1200"),
    ("schedules", "--json", "--namespace", "team-1"),
    ("next", "team-1/customer-11"),
    ("explain", "customer-11"),
    ("explain", "team-1/customr-11"),
    ("schedule", "team-1/customer-11"),
    ("runs", "--schedule", "customer-11"),
    ("check",),
    ("queues",),
    ("graph",),
)


class ReadRows:
    """Counts the rows of job_definitions that each statement reads, with EXPLAIN ANALYZE."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.most: dict[str, int] = {}
        self._execute = psycopg.AsyncCursor[Any].execute
        monkeypatch.setattr(psycopg.AsyncCursor, "execute", self._counting())

    def _counting(self) -> Any:
        async def execute(cursor: psycopg.AsyncCursor[Any], query: Any, *values: Any, **options: Any) -> Any:
            text = query.as_string(None) if isinstance(query, Composed) else query
            if isinstance(text, str) and "job_definitions" in text:
                explained = psycopg.AsyncCursor[Any](cursor.connection)
                explain = f"explain (analyze, timing off, format json) {text}".encode()
                await self._execute(explained, explain, *values)
                row = await explained.fetchone()
                assert row
                rows = sum(map(rows_of, nodes(row[0][0]["Plan"])))
                self.most[text] = max(rows, self.most.get(text, 0))
            return await self._execute(cursor, query, *values, **options)

        return execute


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


def rows_of(node: dict[str, Any]) -> int:
    if node.get("Relation Name") != "job_definitions":
        return 0
    removed = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
    return round((node["Actual Rows"] + removed) * node["Actual Loops"])


async def test_no_page_or_command_reads_more_schedules_when_there_are_more(
    database: str, store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    for module in (schedule_selection, schedule_list, run_list, rollups):
        monkeypatch.setattr(module, "EXAMINED", EXAMINED)
    monkeypatch.setattr(schedule_selection, "_SAMPLED_PAGES", 10)
    monkeypatch.setattr(facts, "SCAN_LIMIT", EXAMINED)
    monkeypatch.setattr(run_counts, "_MOST_NAMES", EXAMINED)
    store.conn.execute(MANY.encode(), (EXPRESSION, SCHEDULES))
    store.conn.execute("vacuum analyze job_definitions")
    read = ReadRows(monkeypatch)

    for viewer in (GrantedViewer(granted={None: VIEW}), GrantedViewer(granted={"team-1": VIEW, "team-3": VIEW})):
        client = Client(database, viewer)
        pages = [re.sub(r"\{id:int\}", "11", each.path) for each in ROUTES if "GET" in (each.methods or ())]
        for path in (*(each for each in pages if "{" not in each and each != "/events"), *PAGES):
            assert (await client.get(path)).status < 500, path
        await client.close()
    for command in COMMANDS:
        await asyncio.to_thread(main, ["--dsn", database, *command])

    assert '"name": "customer-9996"' in capsys.readouterr().out
    assert {text: rows for text, rows in read.most.items() if rows > MOST_READ} == {}
    assert len(read.most) > 20
