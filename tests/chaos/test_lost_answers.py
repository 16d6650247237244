"""Answers that are lost after the commit, at the moments at which a worker depends on one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest

from chaos.tcp_proxy import Loss, TcpProxy, Trap
from tests.chaos.processes import Worker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.chaos.processes import Watcher

LEASE_S = 2  # of the workers of these tests
BUSY_MACHINE_S = 10


@pytest.fixture
def store(database: str) -> Iterator[TcpProxy]:
    parts = urlsplit(database)
    place = parse_qs(parts.query)
    store = TcpProxy(f"{place['host'][0]}/.s.PGSQL.{place['port'][0]}")
    store.start()
    yield store
    store.stop()


def through(store: TcpProxy, database: str) -> str:
    return f"postgresql://postgres@127.0.0.1:{store.port}{urlsplit(database).path}?sslmode=disable&gssencmode=disable"


@pytest.mark.parametrize("statement", [b"wakeboard.schema_state", b"wakeboard.register_worker"])
def test_a_worker_that_stays_starts_although_its_first_answers_are_lost(
    statement: bytes, database: str, store: TcpProxy, watcher: Watcher, tmp_path: Path
) -> None:
    watcher.enqueue("quick")
    trap = Trap("wakeboard claims", statement, Loss.ANSWER)
    store.set_trap(trap)
    with Worker(through(store, database), tmp_path, "--forever"):
        watcher.wait("select true from wakeboard.job_run_history where status = 'succeeded'")
    assert trap.sprung.is_set()


def test_a_completion_whose_answer_is_lost_is_accepted_once(
    database: str, store: TcpProxy, watcher: Watcher, tmp_path: Path
) -> None:
    (run,) = watcher.enqueue("waits")
    with Worker(through(store, database), tmp_path, "--forever"):
        watcher.wait("select true from witness")
        trap = Trap("wakeboard outcomes", b"wakeboard.complete", Loss.ANSWER)
        store.set_trap(trap)
        watcher.do("insert into gate values (true)")
        watcher.wait("select true from wakeboard.job_run_history where id = %s", run)
        watcher.enqueue("quick")
        watcher.wait("select count(*) = 2 from wakeboard.job_run_history where status = 'succeeded'")
    assert trap.sprung.is_set()


def test_leases_whose_claim_was_never_answered_come_back_while_their_worker_lives(
    database: str, store: TcpProxy, watcher: Watcher, tmp_path: Path
) -> None:
    with Worker(through(store, database), tmp_path, "--forever", poll_seconds=5):
        watcher.wait(  # it sleeps until it is notified
            "select state_change < clock_timestamp() - interval '0.5 s' from pg_stat_activity"
            " where state = 'idle' and application_name like 'wakeboard claims%'"
        )
        trap = Trap("wakeboard claims", b"wakeboard.claim(", Loss.ANSWER, b'"quick"')
        store.set_trap(trap)
        runs = watcher.enqueue("quick", 10)
        assert trap.sprung.wait(10)
        watcher.wait("select count(*) = 10 from wakeboard.job_run_history where status = 'succeeded'")
    crashes = watcher.rows("select distinct crash_count from wakeboard.job_run_history where id = any(%s)", runs)
    assert crashes == [(0,)]


def test_leases_that_a_leaving_worker_does_not_know_of_come_back_as_soon_as_a_dead_ones(
    database: str, store: TcpProxy, watcher: Watcher, tmp_path: Path
) -> None:
    with Worker(database, tmp_path, "--forever", queues="elsewhere"):  # it walks over all leases now, and in a minute
        watcher.wait("select reap_completed_at > 'epoch' from wakeboard.installation")
        watcher.enqueue("quick", 10)
        trap = Trap("wakeboard claims", b"wakeboard.claim(", Loss.ANSWER, b'"quick"')
        store.set_trap(trap)
        with Worker(through(store, database), tmp_path, drain_lookahead_seconds=0) as leaving:
            assert leaving.exit_code() == 0
        assert trap.sprung.is_set()
        left = time.monotonic()
        # A crash or none: that depends on whether the worker stayed for half a lease after the claim.
        # Those whose claim was not answered are what is left: the worker had claimed some by their age before.
        watcher.wait("select bool_and(status = 'queued' and lease_epoch = 2) from wakeboard.job_runs")
        assert time.monotonic() - left < LEASE_S + 6 + BUSY_MACHINE_S
