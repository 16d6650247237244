"""The completer reports the outcomes of attempts."""

from __future__ import annotations

import asyncio
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from wakeboard.engine.handlers import Handler
from wakeboard.engine.worker_api import DISCONNECTED, SNOOZED, Failure, Release, Worker, WorkerStore
from wakeboard.store.array_texts import text_array
from wakeboard.store.connection import connect
from wakeboard.store.reconnecting import ReconnectingConnection
from wakeboard_worker.attempt import Attempt, AttemptContext
from wakeboard_worker.completer import Completer
from wakeboard_worker.heartbeat import Heartbeat
from wakeboard_worker.in_flight import InFlightBuffer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import psycopg

    from wakeboard.engine.run import ClaimedRow

pytestmark = pytest.mark.anyio

ME = Worker(7, "me", "default", "", "", ["default"], 10, 60)


async def returns(run: Any) -> None:
    """A handler."""


async def claimed(store: WorkerStore) -> list[ClaimedRow]:
    returned = text_array(["returns"])
    rows, _ = await store.fetch(returned, 10)
    return rows


async def test_a_result_in_report_is_not_dropped_with_the_lease(database: str) -> None:
    context = AttemptContext(asyncio.get_running_loop(), ME.worker_id, lambda: None)
    in_flight = InFlightBuffer({"returns": Handler("returns", returns)}, context, concurrency=10, threads=1)
    connection, blocked_connection = (
        ReconnectingConnection(database, what, partial(WorkerStore, worker=ME)) for what in ("outcomes", "blocked")
    )
    async with await connect(database) as conn, await connect(database) as other_session:
        store = WorkerStore(conn, ME)
        await conn.execute("insert into wakeboard.job_runs (job_type) values ('returns'), ('returns'), ('returns')")
        first, second, third = await claimed(store)
        in_flight.add([third])
        await store.release([Release(second[0], second[1], reason=SNOOZED)])
        (second,) = await claimed(store)  # under another epoch: it is reported after the first
        for row in (first, second):
            in_flight.succeed(Attempt(row, context), {"of": row[0]})
        async with other_session.transaction():
            await other_session.execute("select from wakeboard.job_runs where id = %s for update", (first[0],))
            completer = Completer(
                in_flight, connection, blocked_connection, Heartbeat(database, ME, in_flight), ME.lease_s
            )
            tasks = [asyncio.create_task(completer.run()), asyncio.create_task(completer.run_blocked())]
            await until(conn, "select from pg_stat_activity where wait_event_type = 'Lock'")
            in_flight.drop_all_leases()
        await until(conn, "select from wakeboard.job_run_history having count(*) = 2")
        cursor = await conn.execute("select (result -> 'of')::bigint = id from wakeboard.job_run_history")
        assert await cursor.fetchall() == [(True,), (True,)]
        for task in tasks:
            task.cancel()
        await connection.close()
        await blocked_connection.close()


async def test_a_crash_that_was_none_is_subtracted_after_a_lock(database: str) -> None:
    context = AttemptContext(asyncio.get_running_loop(), ME.worker_id, lambda: None)
    in_flight = InFlightBuffer({"returns": Handler("returns", returns)}, context, concurrency=10, threads=1)
    connection = ReconnectingConnection(database, "outcomes", partial(WorkerStore, worker=ME))
    async with await connect(database) as conn, await connect(database) as other_session:
        await conn.execute("insert into wakeboard.job_runs (job_type) values ('returns')")
        (row,) = await claimed(WorkerStore(conn, ME))
        await conn.execute("update wakeboard.job_runs set locked_until = now() - interval '1 s'")
        await conn.execute("select wakeboard.reap(always => true)")
        await until(conn, "select from wakeboard.job_runs where crash_count = 1")
        in_flight.defer([Release(row.id, row.lease_epoch, 0.0, DISCONNECTED)])
        heartbeat: Any = SimpleNamespace(leases_valid=lambda: True)
        task = asyncio.create_task(Completer(in_flight, connection, connection, heartbeat, ME.lease_s).run())
        async with other_session.transaction():
            await other_session.execute("select from wakeboard.job_runs for update")
            in_flight.flush_deferred()
            await in_flight.wakeup.wait()  # it is reported
        in_flight.flush_deferred()  # as the next heartbeat does
        await until(conn, "select from wakeboard.job_runs where crash_count = 0")
        task.cancel()
        await connection.close()


async def test_outcomes_that_are_lost_are_named(caplog: pytest.LogCaptureFixture) -> None:
    context = AttemptContext(asyncio.get_running_loop(), ME.worker_id, lambda: None)
    in_flight = InFlightBuffer({"returns": Handler("returns", returns)}, context, concurrency=10, threads=1)
    in_flight.defer([Release(run, 1) for run in range(12, 0, -1)])
    in_flight.flush_deferred()
    heartbeat: Any = SimpleNamespace(leases_valid=lambda: False)
    unused: Any = None
    completing = asyncio.create_task(Completer(in_flight, unused, unused, heartbeat, ME.lease_s).run())
    await in_flight.wakeup.wait()  # they are reported
    completing.cancel()
    named = "runs 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 more"
    assert f"lost: 12 outcomes of {named} could not be sent before the leases expired" in caplog.messages


def answering(answer: Callable[[], list[int]]) -> tuple[Any, Any]:
    """A connection that answers each report of failures, over which no run is leased, and a heartbeat of a lease."""

    async def fail(_: Sequence[Any]) -> list[int]:
        return answer()

    async def none_is_leased(_: Sequence[Any]) -> set[int]:
        return set()

    async def store() -> Any:
        return SimpleNamespace(fail=fail, still_leased=none_is_leased)

    return SimpleNamespace(store=store), SimpleNamespace(leases_valid=lambda: True)


@pytest.mark.parametrize(
    ("blocked", "sentence"),
    [
        (True, "lost: another transaction kept the outcome of run 1 from being stored until the lease was revoked"),
        (False, "lost: the database refused the outcome of run 1"),
    ],
)
async def test_a_refused_outcome_says_if_a_lock_had_kept_it(
    caplog: pytest.LogCaptureFixture, blocked: bool, sentence: str
) -> None:
    context = AttemptContext(asyncio.get_running_loop(), ME.worker_id, lambda: None)
    in_flight = InFlightBuffer({"returns": Handler("returns", returns)}, context, concurrency=10, threads=1)
    connection, heartbeat = answering(lambda: [1])
    failure = Failure(1, 1, "failed", "ValueError", "", "")
    if blocked:
        in_flight.block(failure)
    in_flight.failures.append(failure)
    in_flight.flush.set()
    completing = asyncio.create_task(Completer(in_flight, connection, connection, heartbeat, ME.lease_s).run())
    await in_flight.wakeup.wait()  # it is reported
    completing.cancel()
    assert sentence in caplog.messages
    assert in_flight.counts.lost == 1


async def test_a_report_that_ends_during_its_repeat_is_not_called_refused(caplog: pytest.LogCaptureFixture) -> None:
    context = AttemptContext(asyncio.get_running_loop(), ME.worker_id, lambda: None)
    in_flight = InFlightBuffer({"returns": Handler("returns", returns)}, context, concurrency=10, threads=1)
    answers = [[1], []]  # the commit of the first report ends after the first answer
    connection, heartbeat = answering(lambda: answers.pop(0))
    in_flight.failures.append(Failure(1, 1, "failed", "ValueError", "", ""))
    in_flight.flush.set()
    completing = asyncio.create_task(Completer(in_flight, connection, connection, heartbeat, ME.lease_s).run())
    await in_flight.wakeup.wait()  # it is reported
    completing.cancel()
    assert (in_flight.counts.lost, in_flight.counts.failed) == (0, 1)
    assert not caplog.messages


async def test_outcomes_that_two_tasks_report_at_once_are_all_counted() -> None:
    context = AttemptContext(asyncio.get_running_loop(), ME.worker_id, lambda: None)
    in_flight = InFlightBuffer({"returns": Handler("returns", returns)}, context, concurrency=10, threads=1)
    both = asyncio.Barrier(2)

    async def accepted_at_once(_: Sequence[Any]) -> list[int]:
        await both.wait()
        return []

    async def store() -> Any:
        return SimpleNamespace(fail=accepted_at_once)

    async def close() -> None:
        """Nothing is open."""

    connection: Any = SimpleNamespace(store=store, close=close)
    heartbeat: Any = SimpleNamespace(leases_valid=lambda: True)
    failures = [Failure(run, 1, "failed", "ValueError", "", "") for run in (1, 2)]
    in_flight.block(failures[0])
    in_flight.failures.append(failures[1])
    in_flight.flush.set()
    completer = Completer(in_flight, connection, connection, heartbeat, ME.lease_s)
    tasks = [asyncio.create_task(completer.run()), asyncio.create_task(completer.run_blocked())]
    while in_flight.blocked or in_flight.unreported:  # noqa: ASYNC110 - the completer's answer
        await asyncio.sleep(0.01)
    for task in tasks:
        task.cancel()
    assert in_flight.counts.failed == 2


async def until(conn: psycopg.AsyncConnection, query: str) -> None:
    while not await (await conn.execute(query.encode())).fetchall():  # noqa: ASYNC110 - another session's state
        await asyncio.sleep(0.01)
