"""With any number of schedules, whatever reads them reads a bounded number of them."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from testbed.all_reads import SCHEDULE_ID, board_paths, command_words, write_declared
from testbed.generated_schedules import HUGE, fill_schedules
from tests.board.asgi import VIEW, Client, GrantedViewer
from wakeboard.cli import main
from wakeboard.cli.support import shell_completion
from wakeboard.engine.maintenance_api import MaintenanceStore
from wakeboard.engine.retention import Retention
from wakeboard.health.queries import facts
from wakeboard.maintenance import MaintenanceLoop
from wakeboard.schedules import calls
from wakeboard.settings import read_settings
from wakeboard.store.connection import connect
from wakeboard.views.queries import backlog, listings, rollups, run_counts, run_list, schedule_list, schedule_selection
from wakeboard.views.queries.recent_events import EventQueries

if TYPE_CHECKING:
    from pathlib import Path

    from tests.board.action_store import Store

pytestmark = pytest.mark.anyio

SCHEDULES: Final = 20_000
EXAMINED: Final = 200
MOST_READ: Final = SCHEDULES // 2  # index entries and rows, by one page, command or call
OLDER: Final = re.compile(r'href="([^"]+)"[^>]*rel="next"|rel="next"[^>]*href="([^"]+)"')
# Rows that a scan of the table has read, and entries of its indexes, in functions and triggers, too.
READ: Final = """
select (select seq_tup_read from pg_stat_user_tables where relid = 'job_definitions'::regclass)
       + (select sum(idx_tup_read) from pg_stat_user_indexes where relid = 'job_definitions'::regclass)
"""
CALLS: Final = (
    f"wakeboard.list_schedules('{HUGE}/*')",
    f"wakeboard.list_schedules('{HUGE}/*', '{HUGE}/customer-98')",
    "wakeboard.list_schedules('*/*', 'tenant-4/customer-5')",
    f"wakeboard.schedule('{HUGE}/customer-91-digest', 'job_1', cron => '5 5 * * *')",
    "wakeboard.schedule('tenant-1/new', 'job_1', cron => '5 5 * * *')",
    "wakeboard.unschedule('tenant-1/new')",
    "wakeboard.pause_schedules('tenant-7/*')",
    "wakeboard.resume_schedules('tenant-7/*')",
    "wakeboard.unschedule_all('tenant-9/*')",
    "wakeboard.note_all_schedules()",
    "wakeboard.set_max_schedules(1000000)",
    "wakeboard.schedule('tenant-1/another', 'job_1', cron => '5 5 * * *')",
    "wakeboard.maintenance_due()",
    "wakeboard.next_due('{default,mail}', '{job_1}', 60)",
    f"wakeboard.run_now({SCHEDULE_ID})",
    # noSuccessFor looks at each schedule that its rule does not exclude by a whole namespace
    "wakeboard.measure_alert('noSuccessFor', '1 day', schedule_pattern => 'tenant-3/%')",
    *(
        f"wakeboard.measure_alert('{condition}', '1 hour')"
        for condition in (
            "late",
            "backlog",
            "noWorker",
            "dead",
            "failures",
            "circuitOpen",
            "successMissed",
            "durationOver",
        )
    ),
)


class Reads:
    """How many schedules each step reads. Sessions report what they read after each statement."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self._store = store
        self.of_step: dict[str, int] = {}
        self._before = self._read()
        execute: Any = psycopg.AsyncCursor[Any].execute

        async def reporting(cursor: psycopg.AsyncCursor[Any], *values: Any, **options: Any) -> Any:
            done = await execute(cursor, *values, **options)
            if cursor.connection.info.transaction_status in {TransactionStatus.IDLE, TransactionStatus.INTRANS}:
                await execute(psycopg.AsyncCursor[Any](cursor.connection), b"select pg_stat_force_next_flush()")
            return done

        monkeypatch.setattr(psycopg.AsyncCursor, "execute", reporting)

    def _read(self) -> int:
        self._store.rows("select pg_stat_force_next_flush()")
        return self._store.value(READ)

    def end(self, step: str) -> None:
        """What was read since the last step was read by this one."""
        now = self._read()
        self.of_step[step] = max(now - self._before, self.of_step.get(step, 0))
        self._before = now

    def of_many(self) -> dict[str, int]:
        """The steps that read so many that they read all of them, or will with more."""
        return {step: rows for step, rows in self.of_step.items() if rows > MOST_READ}


@pytest.fixture
def reads(database: str, store: Store, monkeypatch: pytest.MonkeyPatch) -> Reads:
    """Of a database with very many schedules, and with bounds that are as small as it is."""
    for module in (schedule_selection, schedule_list, run_list, rollups):
        monkeypatch.setattr(module, "EXAMINED", EXAMINED)
    monkeypatch.setattr(schedule_selection, "_SAMPLED_PAGES", 5)
    monkeypatch.setattr(facts, "SCAN_LIMIT", EXAMINED)
    monkeypatch.setattr(run_counts, "_MOST_NAMES", EXAMINED)
    monkeypatch.setattr(listings, "MOST_NAMES", EXAMINED)
    monkeypatch.setenv("WAKEBOARD_DSN", database)
    for way in ("seqscan", "bitmapscan", "hashjoin", "mergejoin"):  # as Postgres plans for a million
        store.conn.execute(f"alter database {store.conn.info.dbname} set enable_{way} = off".encode())
    fill_schedules(store.conn, SCHEDULES, history=2_000, live=500)
    return Reads(store, monkeypatch)


async def test_no_page_reads_all_schedules(database: str, reads: Reads):
    for viewer in (GrantedViewer(), GrantedViewer(granted={HUGE: VIEW, "tenant-3": VIEW})):
        client = Client(database, viewer)
        for path in [path for path in board_paths() if viewer.namespaces is None or "?" not in path]:
            answer = await client.get(path)
            assert answer.status < 500, path
            reads.end(f"{path} of {viewer.namespaces}")
            if path in {"/schedules", "/schedules?sort=next"} and (link := OLDER.search(answer.text)):
                await client.get((link[1] or link[2]).replace("&amp;", "&"))
                reads.end(f"the page after {path}")
        await client.close()

    assert reads.of_many() == {}
    assert sum(reads.of_step.values()) > SCHEDULES


async def test_no_command_reads_all_schedules(
    database: str, reads: Reads, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    for words in command_words(write_declared(tmp_path, 20)):
        await asyncio.to_thread(main, ["--dsn", database, *words])
        assert "Usage:" not in capsys.readouterr().err, words
        reads.end(" ".join(words))
    for complete in (shell_completion.complete_schedule, shell_completion.complete_queue):
        for text in ("", "c", f"{HUGE}/", "tenant-7/customer"):
            await asyncio.to_thread(complete, text)
            reads.end(f"completion of {text!r}")

    assert reads.of_many() == {}
    assert sum(reads.of_step.values()) > SCHEDULES


async def test_neither_maintenance_nor_the_operator_reads_all_schedules(database: str, reads: Reads):
    loop = MaintenanceLoop(misfire_grace=timedelta(minutes=5), retention=Retention.from_settings(read_settings()))
    async with await connect(database) as conn:
        store = MaintenanceStore(conn)
        for now in (0.0, 10_000.0, 20_000.0):
            assert not (await loop.run_due(store, now)).failures
            reads.end(f"maintenance at {now}")
        await facts.read_measured(conn)
        await backlog.read_queues(conn, 60)
        reads.end("the operator's metrics")
        events = EventQueries(conn)
        for since in (None, await events.now()):
            await events.due_since(since, ["mail"])
            reads.end(f"what is due for `up` since {since}")
        await calls.pop_changed_definitions(store)
        await calls.list_definitions(store, "k8s:cluster")
        reads.end("the operator's changes and drift")
        for call in 7 * CALLS:  # from the sixth call on, Postgres may prefer another plan
            await conn.execute(f"select * from {call}".encode())
            reads.end(call)

    assert reads.of_many() == {}
