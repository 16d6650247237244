"""A worker with coroutines and plain functions: each of its executors reads past the runs of the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wakeboard.engine.worker_api import SCAN_LIMIT, Ahead, Worker, WorkerStore
from wakeboard.store.connection import connect
from wakeboard_worker import queue_scan
from wakeboard_worker.in_flight import ExecutorState
from wakeboard_worker.queue_scan import QueueScan

if TYPE_CHECKING:
    from tests.worker.conftest import Store

ME = Worker(7, "me", "default", "", "", ["default"], 10, 60)
FOREIGN = "insert into wakeboard.job_runs (job_type) select 'foreign' from generate_series(1, %s)"
TURNS = 5
AHEAD = Ahead("{mine}", 1)


@pytest.fixture
def scan(monkeypatch: pytest.MonkeyPatch) -> QueueScan:
    """Of an executor whose turns end after each scan limit."""
    monkeypatch.setattr(queue_scan, "TURN_S", 0.0)
    return QueueScan(ExecutorState(1, ("mine",)), ["default"])


@pytest.mark.anyio
@pytest.mark.parametrize("mine", [0, 1])
async def test_a_scan_past_foreign_runs_continues_in_the_next_turn(database: str, scan: QueueScan, mine: int) -> None:
    async with await connect(database) as conn:
        store = WorkerStore(conn, ME)
        await conn.execute(FOREIGN.encode(), [TURNS * SCAN_LIMIT])
        await conn.execute(
            b"insert into wakeboard.job_runs (job_type) select 'mine' from generate_series(1, %s)", [mine]
        )
        for _ in range(TURNS):
            assert not (await scan.fetch(store, 1, AHEAD))[0]
            assert scan.interrupted
            assert not scan.found_nothing, "the scan has not reached its end"
        assert len((await scan.fetch(store, 1, AHEAD))[0]) == mine
        assert not scan.interrupted
        assert scan.found_nothing is not bool(mine)


def test_a_worker_that_drains_one_executor_polls_for_the_other(store: Store) -> None:
    name = store.watcher.ask("select current_database()")
    store.watcher.do(f"alter database \"{name}\" set track_functions = 'all'")
    store.enqueue("answers", "{}", 20_000)
    store.wake()  # its handlers are coroutines and plain functions
    store.watcher.do("select pg_stat_clear_snapshot()")
    calls = store.watcher.ask("select calls from pg_stat_user_functions where funcname = 'advance_scan'")
    assert calls <= 20 * (20_000 / SCAN_LIMIT), "the whole queue was read twenty times"


def test_a_worker_exits_when_only_foreign_runs_are_left(store: Store) -> None:
    store.watcher.do("insert into wakeboard.job_runs (job_type) select 'foreign' from generate_series(1, 50000)")
    store.enqueue("answers", "{}", 10)
    store.wake()
    assert store.watcher.ask("select count(*) = 10 from wakeboard.job_run_history where status = 'succeeded'")
