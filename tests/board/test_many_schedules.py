"""With any number of schedules, whatever reads them reads a bounded number of them.

`make test` has few schedules, bounds that are as small, and plans as of a million. `make test-release` has a million
schedules, and changes nothing else.
"""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from testbed.all_reads import RUN_ID, SCHEDULE_ID, board_paths, command_words, write_declared
from testbed.generated_schedules import HUGE, fill_schedules
from tests.board.asgi import ALL, Client, GrantedViewer
from wakeboard.board.bulk_runner import BulkActionRunner
from wakeboard.cli import main
from wakeboard.cli.support import shell_completion
from wakeboard.engine.maintenance_api import MaintenanceStore
from wakeboard.engine.retention import Retention
from wakeboard.health.queries import facts
from wakeboard.maintenance import MaintenanceLoop
from wakeboard.schedules import calls
from wakeboard.settings import read_settings
from wakeboard.store.connection import connect
from wakeboard.store.schema_files import sql_functions
from wakeboard.views.queries import backlog, listings, rollups, run_counts, run_list, schedule_list, schedule_selection
from wakeboard.views.queries.recent_events import EventQueries

if TYPE_CHECKING:
    from pathlib import Path

    from tests.board.action_store import Store

pytestmark = pytest.mark.anyio

FEW: Final = 20_000
EXAMINED: Final = 200
COUNTED: Final = 10_000  # index entries and rows that all steps together read at least, if they are counted
# The right answers that are not 200: the status, and a part of the sentence.
REFUSALS: Final = (
    (400, "More than 1,000 schedules match: narrow the filter"),  # an action on so many
    (400, "write the name of a rule"),  # the form for a rule, of which the address names none
    (400, "write all, or queue: and a name"),  # the same for a pause
    (403, "may not do this (permission:"),  # for all namespaces, by a user of two of them
)
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
    *(
        f"wakeboard.measure_alert('noSuccessFor', '1 day', {where})"
        for where in (
            "schedule_pattern => 'tenant-3/%'",
            "schedule_pattern => '%/customer-9%'",
            f"schedule_pattern => '{HUGE}/%-report'",
            "schedule_pattern => 'tenant-%/%-report'",
            "schedule_pattern => '%nothing'",
            "schedule_pattern => '%', job_type_pattern => 'nothing'",
            f"schedule_pattern => '{HUGE}/%', job_type_pattern => 'job_7'",
            "job_type_pattern => 'job_7'",
            "queue_pattern => 'mail'",
        )
    ),
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

    def __init__(self, store: Store, schedules: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self._store = store
        self._schedules = schedules
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

    def check(self) -> None:
        """No step read so many that it read all of them, or will with more."""
        assert {step: rows for step, rows in self.of_step.items() if rows > self._schedules // 2} == {}
        assert sum(self.of_step.values()) > COUNTED


@pytest.fixture(
    params=[FEW, pytest.param(1_000_000, marks=[pytest.mark.release, pytest.mark.timeout(600)])],
    ids=["few", "a_million"],
)
def reads(request: pytest.FixtureRequest, database: str, store: Store, monkeypatch: pytest.MonkeyPatch) -> Reads:
    """Of a database with very many schedules."""
    schedules: int = request.param
    if schedules == FEW:
        _read_few(store, monkeypatch)
    monkeypatch.setenv("WAKEBOARD_DSN", database)
    monkeypatch.setattr(BulkActionRunner, "start", _stay_idle)
    fill_schedules(store.conn, schedules, history=2_000, live=500)
    made = (
        f"select id from wakeboard.create_bulk_action('discard', array[{RUN_ID}], actor => 'ada', source => 'board')",
        f"select id from wakeboard.create_backfill({SCHEDULE_ID}, '{{2026-01-01}}', '2026-01-01', '2026-01-02')",
    )
    assert [store.value(one) for one in made] == [1, 1]  # the paths have this id
    return Reads(store, schedules, monkeypatch)


def _stay_idle(_: BulkActionRunner) -> None:
    """Executes no bulk action."""


def _read_few(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the bounds be smaller than FEW, and Postgres plan as for a million."""
    for module in (schedule_selection, schedule_list, run_list, rollups):
        monkeypatch.setattr(module, "EXAMINED", EXAMINED)
    monkeypatch.setattr(schedule_selection, "_SAMPLED_PAGES", 5)
    monkeypatch.setattr(facts, "SCAN_LIMIT", EXAMINED)
    monkeypatch.setattr(run_counts, "_MOST_NAMES", EXAMINED)
    monkeypatch.setattr(listings, "MOST_NAMES", EXAMINED)
    (text,) = (each.text for each in sql_functions() if each.name == "measure_alert")
    bound = "a_scan constant integer := "
    assert f"{bound}10000;" in text
    store.conn.execute(text.replace(f"{bound}10000;", f"{bound}{EXAMINED};").encode())
    for way in ("seqscan", "bitmapscan", "hashjoin", "mergejoin"):
        store.conn.execute(f"alter database {store.conn.info.dbname} set enable_{way} = off".encode())


async def test_no_page_reads_all_schedules(database: str, reads: Reads):
    for viewer in (GrantedViewer(), GrantedViewer(granted={HUGE: ALL, "tenant-3": ALL})):
        client = Client(database, viewer)
        for path in [path for path in board_paths() if viewer.namespaces is None or "?" not in path]:
            answer = await client.get(path)
            right = [sentence for status, sentence in REFUSALS if status == answer.status]
            assert answer.status == 200 or any(sentence in answer.words for sentence in right), (path, answer.words)
            reads.end(f"{path} of {viewer.namespaces}")
            if path in {"/schedules", "/schedules?sort=next"} and (link := OLDER.search(answer.text)):
                await client.get((link[1] or link[2]).replace("&amp;", "&"))
                reads.end(f"the page after {path}")
        await client.close()

    reads.check()


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

    reads.check()


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

    reads.check()


async def test_no_pass_reads_what_a_pause_holds_again(database: str, store: Store, reads: Reads):
    alone, active = "id % 30 = 1", "removed_at is null and not suspended"
    due = "expect_success_within_s = 60, success_expected_from = now(), success_due_at = now()"
    for statement in (
        "set session_replication_role = replica",
        f"update job_definitions set {due} where {active} and (queue = 'imports' or {alone})",
        f"insert into pauses select 'schedule:' || id from job_definitions where {alone} on conflict do nothing",
        "set session_replication_role = origin",
        "vacuum analyze job_definitions, pauses",
    ):
        store.conn.execute(statement.encode())
    async with await connect(database) as conn:
        maintained = MaintenanceStore(conn)
        while await calls.update_expectations(maintained):
            pass
        store.conn.execute("vacuum job_definitions")
        reads.end("the first pass")
        await calls.update_expectations(maintained)
        reads.end("another pass")
        assert await calls.due_definitions(maintained) == []
        reads.end("a pass of the scheduler")
    assert reads.of_step["another pass"] < reads.of_step["the first pass"] / 10
    assert reads.of_step["a pass of the scheduler"] < EXAMINED
