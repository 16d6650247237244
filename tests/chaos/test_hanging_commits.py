"""Commits hang while a synchronous standby is away: sessions do not pile up, and healthy runs do not crash."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from testbed.standby import UNCONFIRMED, Standby
from tests.chaos.processes import Watcher, Worker, wait_until
from wakeboard.health.queries.commits import CommitFacts, read_commit_facts
from wakeboard.local.postgres import EmbeddedPostgres
from wakeboard.store.connection import connect
from wakeboard.store.migrate import migrate
from wakeboard.store.reply_limit import ReplyLimit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LEASE_S = 4
STALL_S = 6.0  # longer than a lease; without a bound, a heartbeat opens several sessions in it
CHECK_S = 30.0
SESSIONS = """
select application_name, count(*) from pg_stat_activity
 where starts_with(application_name, 'wakeboard ') group by 1 order by 2 desc limit 1
"""
HANGING = "from pg_stat_activity where wait_event = 'SyncRep'"
# Of each of these calls, the second one finds that the first one has done it. Each of the first two groups has a run.
BY_WORKER = {
    "complete": "select complete(7, array[id], array[lease_epoch])",
    "fail": "select fail(7, array[id], array[lease_epoch], '{failed}', '{E}', '{e}', '{s}', '{9}')",
    "release": "select release(7, array[id], array[lease_epoch], '{9}', '{true}')",
    "step": "select step(7, id, lease_epoch, 'fetch', '1')",
    "effect": "select effect(7, id, lease_epoch, 'charge', true)",
    "effect_forever": "select effect_forever(7, id, lease_epoch, 'invoice', true)",
    "once": "select once(7, id, uuid, lease_epoch, 'pay')",
}
BY_USER = {
    "cancel": "select cancel(array[id])",
    "cancel_run": "select cancel_run(id, uuid)",
    "retry": "select retry(array[id])",
    "discard": "select discard(array[id])",
}
WITHOUT_RUN = {
    "enqueue": "select enqueue('quick', idempotency_key => 'order-7')",
    "enqueue in a window": "select enqueue('quick', unique_for => 3600)",
    "enqueue_many": "select enqueue_many('{quick}', array['{}']::jsonb[], idempotency_keys => '{order-8}')",
    "enqueue_many in a window": "select enqueue_many('{quick}', array['{\"a\": 1}']::jsonb[], unique_for => 3600)",
    "pause": "select pause('queue:mails')",
    "resume": "select resume('queue:reports')",
    "set_limit": "select set_limit('printer', 2)",
    "set_rate_limit": "select set_rate_limit('api', 2)",
    "declare_limits": """select declare_limits('file:shop', '[{"key": "scanner", "max_running": 2}]')""",
    "schedule": "select schedule('shop/a', 'ping')",
    "schedule_many": """select schedule_many('[{"name": "b", "job_type": "p"}, {"name": "c", "job_type": "p"}]')""",
    "unschedule": "select unschedule('shop/d')",
    "unschedule_all": "select unschedule_all('shop/e*')",
    "cancel_backfill": "select cancel_backfill(max(id)) from backfills",
    "cancel_bulk_action": "select cancel_bulk_action(max(id)) from bulk_actions",
    "release_effect": "select release_effect('invoice-1', 'a test')",
}
ENQUEUE = "select wakeboard.enqueue('ping', jsonb_build_object('for', name)) from unnest(%s::text[]) as name"
PREPARED = """
select fetch_runs(7, 3600, '{default}', '{ping}', 100);
select fail(7, array[id], array[lease_epoch], '{discarded}', '{E}', '{e}', '{s}', '{0}') from job_runs
 where payload ->> 'for' in ('retry', 'discard');
select effect_forever(7, id, lease_epoch, 'invoice-1', true) from job_runs where payload ->> 'for' = 'effect';
select pause('queue:reports'), schedule('shop/d', 'ping', cron => '@yearly'), schedule('shop/e', 'ping');
select create_backfill(id, '{2026-01-01 00:00Z}', '2026-01-01', '2026-01-02') from job_definitions where name = 'd';
select create_bulk_action('retry', '{1}')
"""
RUNNING = "select count(*) = 10 from wakeboard.job_runs where locked_until > now() and started_epoch = lease_epoch"


def check(dsn: str) -> dict[str, str]:
    """What `wakeboard check` says about commits."""
    command = [sys.executable, "-c", "from wakeboard.cli import main; main()", "check", "--json", "--dsn", dsn]
    found = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return next(each for each in json.loads(found) if each["check"] == "commits")


@pytest.fixture
def standby(postgres_folder: Path) -> Iterator[tuple[str, Standby]]:
    """The DSN of a migrated primary, and its standby."""
    settings = {"max_connections": "100", "fsync": "off"}
    with EmbeddedPostgres(postgres_folder / "primary", settings=settings, trusting=True) as primary:
        asyncio.run(migrate(primary.dsn))
        standby = Standby(primary, postgres_folder / "standby")
        with standby.confirming():
            yield primary.dsn, standby


def test_a_role_that_may_send_no_messages_knows_no_hanging_commits(standby: tuple[str, Standby]) -> None:
    dsn, _ = standby
    with psycopg.connect(dsn, autocommit=True) as conn:
        functions = "select oid::regprocedure::text from pg_proc where proname = 'pg_logical_emit_message'"
        for (function,) in conn.execute(functions).fetchall():
            conn.execute(f"revoke execute on function {function} from public".encode())
        conn.execute("create role silent login")
    assert asyncio.run(_commits(dsn + "&user=silent")).are_unknown
    assert not asyncio.run(_commits(dsn)).are_unknown


@pytest.mark.anyio
async def test_a_commit_that_is_given_up_leaves_the_primary_the_first_host(standby: tuple[str, Standby]) -> None:
    dsn, server = standby
    hosts = ",".join(str(conninfo_to_dict(each)["host"]) for each in (dsn, server.dsn))
    both = make_conninfo(dsn, host=hosts, target_session_attrs="read-write")
    server.freeze()
    async with await connect(both, reply_limit=ReplyLimit(0.5)) as conn:
        with pytest.raises(psycopg.OperationalError):
            await conn.execute("create table given_up ()")
    began = time.monotonic()
    async with await connect(both):
        assert time.monotonic() - began < 1.0


async def _commits(dsn: str) -> CommitFacts:
    async with await connect(dsn) as conn:
        return await read_commit_facts(conn, dsn)


def test_a_repeated_call_is_confirmed_no_sooner_than_the_first(standby: tuple[str, Standby]) -> None:
    dsn, server = standby
    of_a_run = {
        name: f"{call} from all_runs where payload ->> 'for' = '{name}'" for name, call in (BY_WORKER | BY_USER).items()
    }
    with Watcher(dsn + UNCONFIRMED) as watcher, ThreadPoolExecutor() as pool:
        _prepare(watcher)
        too_soon = [
            name for name, call in (WITHOUT_RUN | of_a_run).items() if not _waits(call, dsn, server, watcher, pool)
        ]
    assert too_soon == []


def _prepare(watcher: Watcher) -> None:
    watcher.do("set search_path = wakeboard, pg_catalog, pg_temp")
    watcher.do("select register_worker(7, 'w', 'default', 'here', '1', '{default}', 10, 3600, '{ping}')")
    watcher.do(ENQUEUE, [*BY_WORKER, "retry", "discard"])
    for statement in PREPARED.split(";\n"):
        watcher.do(statement)
    watcher.do(ENQUEUE, ["cancel", "cancel_run"])


def _waits(query: str, dsn: str, server: Standby, watcher: Watcher, pool: ThreadPoolExecutor) -> bool:
    """Whether the call waits for the standby, although a call whose session has ended has done the same before."""

    def call() -> object:
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute("set search_path = wakeboard, pg_catalog")
            return conn.execute(query.encode()).fetchall()

    server.freeze()
    try:
        first = pool.submit(call)
        watcher.wait(f"select count(pg_terminate_backend(pid)) = 1 {HANGING}")  # what it wrote is visible now
        assert isinstance(first.exception(), psycopg.OperationalError)
        repeated = pool.submit(call)
        hangs = f"select count(*) = 1 {HANGING}"
        wait_until(lambda: repeated.done() or watcher.ask(hangs), query)
        waits = not repeated.done()
    finally:
        server.thaw()
    repeated.result()
    return waits


def test_a_command_says_that_its_commit_hangs(standby: tuple[str, Standby]) -> None:
    dsn, server = standby
    server.freeze()
    words = "from wakeboard.cli import main; main()", "enqueue", "ping", "--dsn", dsn
    with subprocess.Popen([sys.executable, "-c", *words], stderr=subprocess.PIPE, text=True) as command:
        assert command.stderr
        assert "`wakeboard check` says whether commits hang" in command.stderr.readline()
        server.thaw()
        command.communicate(timeout=60)
    assert command.returncode == 0


def test_while_commits_hang_no_session_piles_up_and_no_run_crashes(
    standby: tuple[str, Standby], tmp_path: Path
) -> None:
    dsn, server = standby
    with (
        Watcher(dsn + UNCONFIRMED) as watcher,
        Worker(dsn, tmp_path, "--forever", lease_seconds=LEASE_S),
        Worker(dsn, tmp_path, "--forever", lease_seconds=LEASE_S),
    ):
        watcher.enqueue("sleeps", 10)
        watcher.wait(RUNNING)
        server.freeze()
        most = _most_sessions(watcher, STALL_S)
        server.thaw()
        watcher.wait(RUNNING)
        server.freeze()
        began = time.monotonic()
        found = check(dsn)
        assert time.monotonic() - began < CHECK_S
        most = max(most, _most_sessions(watcher, 0.0))
        server.thaw()
        assert (found["level"], "the standby does not answer" in found["message"]) == ("fail", True), found
        wait_until(lambda: check(dsn)["level"] == "ok", "commits are confirmed")
        watcher.enqueue("quick")
        watcher.wait("select true from wakeboard.job_run_history where status = 'succeeded'")
        watcher.wait(RUNNING)
        assert most <= 2  # the session of a connection, and the former one, while it ends
        assert watcher.rows("select sum(crash_count), sum(attempts) from wakeboard.job_runs") == [(0, 10)]


def test_an_outcome_without_an_answer_is_not_called_lost(standby: tuple[str, Standby], tmp_path: Path) -> None:
    dsn, server = standby
    with Watcher(dsn + UNCONFIRMED) as watcher, Worker(dsn, tmp_path, "--forever", lease_seconds=LEASE_S) as worker:
        (run,) = watcher.enqueue("pauses")
        watcher.wait("select true from wakeboard.job_runs where locked_by <> 0")
        server.freeze()
        unknown = f"no answer came to 1 outcome of run {run} before the leases expired"
        wait_until(lambda: unknown in worker.log, unknown)
        server.thaw()
        known = f"stored: the outcome of run {run}"
        wait_until(lambda: known in worker.log, known)
        assert watcher.status(run) == "succeeded"
        assert '"lost: ' not in worker.log


def _most_sessions(watcher: Watcher, seconds: float) -> int:
    """Of one connection, for so long."""
    until, most = time.monotonic() + seconds, 0
    while True:
        most = max([most, *(count for _, count in watcher.rows(SESSIONS))])
        if time.monotonic() >= until:
            return most
        time.sleep(0.1)
