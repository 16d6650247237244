"""A worker with coroutines and plain functions: each of its executors reads past the runs of the other."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from wakeboard.engine.worker_api import Worker, WorkerStore
from wakeboard.store.connection import connect

if TYPE_CHECKING:
    from tests.worker.conftest import Store

ME = Worker(7, "me", "default", "", "", ["default"], 10, 60)
FOREIGN = "insert into wakeboard.job_runs (job_type) select 'foreign' from generate_series(1, %s)"
SCAN_LIMIT = 2000  # rows of one (queue, priority) that a claim reads
FOREIGN_RUNS = 60_000


@pytest.mark.anyio
async def test_a_scan_past_foreign_runs_continues_in_the_next_turn(database: str) -> None:
    async with await connect(database) as conn:
        store = WorkerStore(conn, ME)
        await conn.execute(FOREIGN.encode(), [FOREIGN_RUNS])
        for mine in (0, 1):
            await conn.execute(
                b"insert into wakeboard.job_runs (job_type) select 'mine' from generate_series(1, %s)", [mine]
            )
            rows, answer, turns = [], None, 0
            while answer is None or answer.again:
                rows, answer = await store.fetch("{mine}", 2, answer and answer.state)
                assert not (rows and turns == 0), "one turn has read everything"
                turns += 1
                if rows:
                    break
            assert len(rows) == mine
            assert 2 <= turns <= FOREIGN_RUNS / SCAN_LIMIT + 2


def test_a_worker_that_drains_one_executor_polls_for_the_other(store: Store) -> None:
    name = store.watcher.ask("select current_database()")
    store.watcher.do(f"alter database \"{name}\" set track_functions = 'all'")
    store.enqueue("answers", "{}", 8_000)
    store.wake()  # its handlers are coroutines and plain functions
    store.watcher.do("select pg_stat_clear_snapshot()")
    calls = store.watcher.ask("select calls from pg_stat_user_functions where funcname = 'advance_scan'")
    assert calls <= 50 * (8_000 / SCAN_LIMIT), "the whole queue was read fifty times"


def test_a_worker_exits_when_only_foreign_runs_are_left(store: Store) -> None:
    store.watcher.do("insert into wakeboard.job_runs (job_type) select 'foreign' from generate_series(1, 20000)")
    store.enqueue("answers", "{}", 10)
    store.wake()
    assert store.watcher.ask("select count(*) = 10 from wakeboard.job_run_history where status = 'succeeded'")


def test_no_executor_starts_a_run_beside_a_quarantined_one(store: Store) -> None:
    beside = "select bool_and(status = 'succeeded') from wakeboard.all_runs where id = any (%s)"
    first = "select min(started_at) from wakeboard.job_run_history where id = any (%s)"
    with store.worker("--forever", poll_seconds=0.05):
        for job_type in ("measures", "measures-plainly"):
            (alone,) = store.enqueue(job_type, '{"seconds": 0.4}', crash_count=2)
            store.watcher.wait("select status = 'running' from wakeboard.all_runs where id = %s", alone)
            others = store.enqueue("answers", count=3) + store.enqueue("answers-plainly", count=3)
            store.watcher.wait(beside, [alone, *others])
            assert store.watcher.ask(first, others) >= store.watcher.ask(first, [alone]) + timedelta(seconds=0.4)
