"""Which leases the heartbeat renews, the watchdog of its connection, and what ends a worker."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from tests.worker.test_completer import claimed, returns, until
from wakeboard.handlers import Handler
from wakeboard.store.connection import connect
from wakeboard.store.worker_api import SNOOZED, Attention, Release, Worker, WorkerStore
from wakeboard_worker import heartbeat
from wakeboard_worker.attempt import AttemptContext
from wakeboard_worker.heartbeat import Heartbeat
from wakeboard_worker.in_flight import InFlightBuffer
from wakeboard_worker.watchdog import Watchdog
from wakeboard_worker.worker import wait_for_first

pytestmark = pytest.mark.anyio

ME = Worker(7, "me", "default", "", "", ["default"], 10, lease_s=4)


async def test_dropped_leases_are_not_renewed(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The renewal after a suspend may be answered before the event loop has dropped the leases."""
    context = AttemptContext(asyncio.get_running_loop(), ME.worker_id, lambda: None)
    in_flight = InFlightBuffer({"returns": Handler("returns", returns)}, context, concurrency=10, threads=1)
    async with await connect(database) as conn:
        store = WorkerStore(conn, ME)
        await store.register_worker(["returns"])
        await conn.execute("insert into wakeboard.job_runs (job_type) values ('returns')")
        in_flight.add(await claimed(store))
        beats = Heartbeat(database, ME, in_flight)
        beats.start()
        try:
            await renewal(conn)
            real = heartbeat.boottime
            monkeypatch.setattr(heartbeat, "boottime", lambda: real() + ME.lease_s)  # this machine was suspended
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
        assert [row[1] for row in in_flight.coroutines.waiting] == [2]


async def renewal(conn: psycopg.AsyncConnection[Any]) -> None:
    """Wait for the next renewal that is answered."""
    cursor = await conn.execute("select last_seen from wakeboard.workers")
    (seen,) = await cursor.fetchone() or (None,)
    await until(conn, f"select from wakeboard.workers where last_seen > '{seen}'")


async def lease(conn: psycopg.AsyncConnection[Any]) -> Any:
    return await (await conn.execute("select locked_until from wakeboard.job_runs")).fetchone()


def test_a_connection_whose_reply_is_late_is_aborted(database: str) -> None:
    watchdog = Watchdog()
    watchdog.start()
    for _ in range(2):  # one thread, again and again
        with psycopg.connect(database) as conn, watchdog.waiting(conn, 30):
            assert conn.execute("select 1").fetchone() == (1,)
        conn = psycopg.connect(database)
        with pytest.raises(psycopg.OperationalError), watchdog.waiting(conn, 0.1):
            conn.execute("select pg_sleep(60)")
        conn.close()


def test_a_connection_whose_reply_arrived_is_not_aborted(database: str) -> None:
    watchdog = Watchdog()
    watchdog.start()
    with psycopg.connect(database) as conn:
        with watchdog.waiting(conn, 0.05):
            conn.execute("select 1")
        conn.execute("select pg_sleep(0.2)")


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
