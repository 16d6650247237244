"""Which leases the heartbeat renews, which renewals are answered, and what ends a worker."""

from __future__ import annotations

import asyncio
import socket
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.worker.test_completer import claimed, returns, until
from wakeboard.engine.handlers import Handler
from wakeboard.engine.run import UNREACHABLE
from wakeboard.engine.worker_api import SNOOZED, Attention, Release, Renewal, Worker, WorkerStore, renew
from wakeboard.errors import InvalidValue, Locked, Snooze
from wakeboard.store.connection import connect, connect_blocking
from wakeboard_worker import heartbeat
from wakeboard_worker.attempt import Attempt, AttemptContext
from wakeboard_worker.heartbeat import Heartbeat
from wakeboard_worker.in_flight import InFlightBuffer
from wakeboard_worker.worker import wait_for_first

if TYPE_CHECKING:
    import psycopg

pytestmark = pytest.mark.anyio

ME = Worker(7, "me", "default", "", "", ["default"], 10, lease_s=4)


async def test_dropped_leases_are_not_renewed(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The renewal after a suspend may be answered before the event loop has dropped the leases."""
    me = replace(ME, lease_s=8)  # a busy machine suspends it before the next renewal begins, too
    monkeypatch.setattr(heartbeat, "LOOP_BLOCKED_S", 60.0)  # no task of this test checks the loop
    context = AttemptContext(asyncio.get_running_loop(), me.worker_id, lambda: None)
    in_flight = InFlightBuffer({"returns": Handler("returns", returns)}, context, concurrency=10, threads=1)
    async with await connect(database) as conn:
        store = WorkerStore(conn, me)
        await store.register_worker(["returns"])
        await conn.execute("insert into wakeboard.job_runs (job_type) values ('returns')")
        in_flight.add(await claimed(store))
        beats = Heartbeat(database, me, in_flight)
        beats.start()
        try:
            await renewal(conn)
            real = heartbeat.boottime
            monkeypatch.setattr(heartbeat, "boottime", lambda: real() + me.lease_s)  # this machine was suspended
            expires_at = await lease(conn)
            await renewal(conn)
        finally:
            beats.stop()
        assert (in_flight.waiting, in_flight.running) == (0, 0)
        assert await lease(conn) == expires_at


async def test_an_answer_for_an_older_lease_does_not_stop_a_newer_attempt(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a heartbeat renews a lease, the run is released and claimed again."""
    monkeypatch.setattr(heartbeat, "LOOP_BLOCKED_S", 60.0)  # no task of this test checks the loop
    loop, renewed = asyncio.get_running_loop(), asyncio.Event()
    in_flight = InFlightBuffer(
        {"returns": Handler("returns", returns)}, AttemptContext(loop, ME.worker_id, lambda: None), 10, threads=1
    )
    async with await connect(database) as conn:
        store = WorkerStore(conn, ME)
        await store.register_worker(["returns"])
        await conn.execute("insert into wakeboard.job_runs (job_type) values ('returns')")
        in_flight.add(await claimed(store))
        real = heartbeat.renew

        async def again() -> None:
            old = in_flight.coroutines.waiting.popleft()
            await store.release([Release(old[0], old[1], reason=SNOOZED)])
            in_flight.add(await claimed(store))

        def slow(*args: Any) -> list[Attention]:
            first = not renewed.is_set()
            if first:
                asyncio.run_coroutine_threadsafe(again(), loop).result()
            answers = real(*args)
            loop.call_soon_threadsafe(lambda: loop.call_soon(renewed.set))  # after the answers are applied
            return answers

        monkeypatch.setattr(heartbeat, "renew", slow)
        beats = Heartbeat(database, ME, in_flight)
        beats.start()
        try:
            await renewed.wait()
            await renewal(conn)
        finally:
            beats.stop()
        newest = await (await conn.execute("select lease_epoch from wakeboard.job_runs")).fetchone()
        assert [(row[1],) for row in in_flight.coroutines.waiting] == [newest]


async def test_progress_of_a_run_and_its_steps_is_visible_within_a_second(database: str) -> None:
    """Long before a heartbeat is due. A step that raises has failed, with its error; one that snoozes has not."""
    me = replace(ME, lease_s=600)
    async with await connect(database) as conn, await connect(database) as viewer:
        store = WorkerStore(conn, me)

        async def worker_store() -> WorkerStore:
            return store

        context = AttemptContext(asyncio.get_running_loop(), me.worker_id, worker_store)
        in_flight = InFlightBuffer({"returns": Handler("returns", returns)}, context, concurrency=10, threads=1)
        await store.register_worker(["returns"])
        await conn.execute("insert into wakeboard.job_runs (job_type) values ('returns')")
        attempt = Attempt((await claimed(store))[0], context, time.monotonic())
        in_flight.coroutines.add_running(attempt)
        beats = Heartbeat(database, me, in_flight)
        beats.start()

        async def write() -> None:
            attempt.progress(0.3, "page\0 3, password=hunter2", step="write")
            began = time.monotonic()
            await until(viewer, "select from wakeboard.job_steps where progress_message = 'page� 3, password=***'")
            attempt.progress(0.25, "2 of 10")
            await until(viewer, "select from wakeboard.job_runs where (progress, progress_message) = (0.25, '2 of 10')")
            assert time.monotonic() - began < 2
            raise ValueError("no such customer")

        async def wait() -> None:
            raise Snooze(60)

        try:
            with pytest.raises(ValueError, match="no such customer"):
                await attempt.step("write", write)
            with pytest.raises(Snooze):
                await attempt.step("wait", wait)
            with pytest.raises(InvalidValue, match="no step 'write'"):
                attempt.progress(0.5, step="write")
        finally:
            beats.stop()
        steps = await viewer.execute("select failed_at is null, error, progress from wakeboard.job_steps order by name")
        assert await steps.fetchall() == [
            (True, None, None),
            (False, "ValueError: no such customer", pytest.approx(0.3)),
        ]


async def test_the_end_of_a_handler_that_blocked_the_loop_ends_no_worker(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was within its timeout, and the loop has not been checked since it ended."""
    ends: list[int] = []
    monkeypatch.setattr(heartbeat, "LOOP_GRACE_S", 0.0)
    monkeypatch.setattr(heartbeat.os, "_exit", ends.append)
    async with await connect(database) as conn:
        store = WorkerStore(conn, ME)
        await store.register_worker(["returns"])
        await conn.execute("insert into wakeboard.job_runs (job_type) values ('returns')")
        context = AttemptContext(asyncio.get_running_loop(), ME.worker_id, lambda: None)
        in_flight = InFlightBuffer({"returns": Handler("returns", returns)}, context, concurrency=10, threads=1)
        attempt = Attempt((await claimed(store))[0], context, time.monotonic())
        in_flight.coroutines.add_running(attempt)
        beats = Heartbeat(database, ME, in_flight)
        beats.start()
        try:
            await renewal(conn)  # no task of this test checks the loop
            in_flight.succeed(attempt, None)
            in_flight.coroutines.remove(attempt, time.monotonic())
            await renewal(conn)
            await renewal(conn)
        finally:
            beats.stop()
    assert ends == []


async def renewal(conn: psycopg.AsyncConnection[Any]) -> None:
    """Wait for the next renewal that is answered."""
    cursor = await conn.execute("select last_seen from wakeboard.workers")
    (seen,) = await cursor.fetchone() or (None,)
    await until(conn, f"select from wakeboard.workers where last_seen > '{seen}'")


async def lease(conn: psycopg.AsyncConnection[Any]) -> Any:
    return await (await conn.execute("select locked_until from wakeboard.job_runs")).fetchone()


@pytest.mark.parametrize("since", ["nothing", "one lost", "one claimed"])
async def test_a_renewal_that_meets_locks_of_an_earlier_one_was_not_answered(database: str, since: str) -> None:
    """An earlier renewal of this worker, whose commit hangs, keeps the rows locked."""
    async with await connect(database) as conn, await connect(database) as hung:
        store = WorkerStore(conn, ME)
        await store.register_worker(["returns"])
        await conn.execute("insert into wakeboard.job_runs (job_type) select 'returns' from generate_series(1, 3)")
        leases = [Renewal(*row[:2]) for _ in range(3) for row in await claimed(store)]
        with connect_blocking(database) as beats:
            async with hung.transaction():
                await hung.execute("select from wakeboard.workers for update")
                assert renew(beats, ME, leases) == []
                renewed_before = leases[1:] if since == "one claimed" else leases
                await hung.execute(
                    "select from wakeboard.job_runs where id = any (%s) for update",
                    [[each.id for each in renewed_before]],
                )
                held = [leases[0]._replace(epoch=99), *leases[1:]] if since == "one lost" else leases
                with pytest.raises(Locked, match="an earlier renewal"):
                    renew(beats, ME, held)
                assert renew(beats, ME, []) == []
            assert renew(beats, ME, leases) == []


@pytest.mark.parametrize("refused", [False, True])
async def test_leases_are_dropped_in_time_while_no_renewal_is_answered(
    database: str, refused: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The connection opens for long, or the right to renew was revoked: the worker lives, so no run has crashed."""
    context = AttemptContext(asyncio.get_running_loop(), ME.worker_id, lambda: None)
    in_flight = InFlightBuffer({"returns": Handler("returns", returns)}, context, concurrency=10, threads=1)
    me = replace(ME, lease_s=1)
    async with await connect(database) as conn:
        store = WorkerStore(conn, me)
        await store.register_worker(["returns"])
        await conn.execute("insert into wakeboard.job_runs (job_type) values ('returns')")
        attempt = Attempt((await claimed(store))[0], context, time.monotonic())
        in_flight.coroutines.add_running(attempt)
        await conn.execute("create role has_no_right login")
        with socket.create_server(("127.0.0.1", 0)) as silent:
            began = time.monotonic()
            hangs = f"postgresql://nobody@127.0.0.1:{silent.getsockname()[1]}/none"
            beats = Heartbeat(f"{database}&user=has_no_right" if refused else hangs, me, in_flight)
            beats.start()
            while attempt.stopped_because is None:  # the worker does this twice a second
                beats.drop_invalid_leases()
                await asyncio.sleep(0.01)
            assert time.monotonic() - began < 1.9  # a connection opens for two seconds
            beats.stop()
        await conn.execute("drop role has_no_right")
    assert attempt.stopped_because == UNREACHABLE
    assert f"dropped 1 lease; run {attempt.id} had begun, and may run twice" in caplog.text


async def test_an_error_in_one_task_of_the_worker_ends_all() -> None:
    async def breaks() -> None:
        raise MemoryError("no room for an outcome")

    continues = asyncio.create_task(asyncio.sleep(60))
    with pytest.raises(MemoryError, match="no room"):
        await wait_for_first([continues, asyncio.create_task(breaks())])
    continues.cancel()


async def test_a_task_that_is_done_is_not_an_error() -> None:
    continues = asyncio.create_task(asyncio.sleep(60))
    await wait_for_first([asyncio.create_task(asyncio.sleep(0)), continues])
    continues.cancel()
