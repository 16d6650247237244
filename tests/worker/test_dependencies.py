"""A worker starts the runs that wait for others as soon as these have succeeded, and gives handlers their results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

import wakeboard
from wakeboard.errors import InvalidValue
from wakeboard.testing import FakeRun, run_handler

if TYPE_CHECKING:
    from tests.worker.conftest import Store

HANDLERS = "tests.worker.reporting_handlers"


def enqueue_chain(store: Store, length: int) -> list[int]:
    """Enqueues runs of which each waits for the one before; their ids."""
    ids: list[int] = []
    with psycopg.connect(store.dsn) as conn:
        for _ in range(length):
            ids.append(wakeboard.enqueue(conn, "answers", after=ids[-1:]).id)
    return ids


def test_a_worker_that_drains_executes_a_whole_chain(store: Store) -> None:
    ids = enqueue_chain(store, 5)
    store.wake(handlers=HANDLERS)
    assert store.watcher.rows("select id from wakeboard.job_run_history order by finished_at, id") == [
        (run,) for run in ids
    ]


def test_each_level_starts_within_a_fraction_of_a_second(store: Store) -> None:
    with store.worker("--forever", handlers=HANDLERS):
        store.watcher.wait("select true from wakeboard.workers")
        enqueue_chain(store, 20)
        store.watcher.wait("select true from wakeboard.job_run_history having count(*) = 20")
    took = store.watcher.ask(
        "select extract(epoch from max(finished_at) - min(finished_at)) from wakeboard.job_run_history"
    )
    assert took / 19 < 0.5, "on an idle machine it is 0.02 s; a poll would take 1 s"


def test_a_handler_reads_the_results_of_the_runs_before(store: Store) -> None:
    with psycopg.connect(store.dsn) as conn:
        parts = [wakeboard.enqueue(conn, "answers", {"answer": number}) for number in (2, 3)]
        sums = [wakeboard.enqueue(conn, job_type, after=parts) for job_type in ("adds", "adds-plainly")]
    store.wake(handlers=HANDLERS)
    assert [store.run(each.id)["result"] for each in sums] == [5, 5]


@pytest.mark.anyio
async def test_a_test_gives_the_results_of_the_runs_before() -> None:
    async def adds(run: wakeboard.Run) -> int:
        return sum(await run.results())

    assert (await run_handler(adds, FakeRun(results=[2, 3]))).result == 5
    assert (await run_handler(lambda run: sum(run.results()), FakeRun(results=[1]))).result == 1
    assert (await run_handler(adds)).result == 0


def test_after_is_a_list_of_runs(database: str) -> None:
    with psycopg.connect(database) as conn:
        pay = wakeboard.enqueue(conn, "ping")
        for wrong in (pay, 7, "7"):
            with pytest.raises(InvalidValue, match="write a list, such as"):
                wakeboard.enqueue(conn, "ping", after=wrong)  # pyright: ignore[reportCallIssue, reportArgumentType]
        with pytest.raises(InvalidValue, match="after is 'x'; write the ids of runs"):
            wakeboard.enqueue(conn, "ping", after=["x"])  # pyright: ignore[reportCallIssue, reportArgumentType]
        assert wakeboard.enqueue(conn, "ping", after=[pay, pay.id, *wakeboard.enqueue_many(conn, [])]).created
