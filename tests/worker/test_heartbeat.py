"""The heartbeat and what it renews."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.worker.test_completer import claimed, returns, until
from wakeboard.handlers import Handler
from wakeboard.store.connection import connect
from wakeboard.store.worker_api import SNOOZED, Attention, Release, Worker, WorkerStore
from wakeboard_worker import heartbeat
from wakeboard_worker.attempt import AttemptContext
from wakeboard_worker.heartbeat import Heartbeat
from wakeboard_worker.in_flight import InFlightBuffer

if TYPE_CHECKING:
    import psycopg

pytestmark = pytest.mark.anyio

ME = Worker(7, "me", "default", "", "", ["default"], 10, lease_s=4)


async def test_leases_that_are_given_up_lapse_when_they_would_have(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The beat that finds trust gone may be answered at once, before the event loop has dropped what it holds."""
    context = AttemptContext(asyncio.get_running_loop(), ME.worker_id, lambda: None)
    in_flight = InFlightBuffer({"returns": Handler("returns", returns)}, context, concurrency=10, threads=1)
    async with await connect(database) as conn:
        worker_store = WorkerStore(conn, ME)
        await worker_store.register_worker(["returns"])
        await conn.execute("insert into wakeboard.job_runs (job_type) values ('returns')")
        in_flight.take(await claimed(worker_store))
        beats = Heartbeat(database, ME, in_flight)
        beats.start()
        try:
            await beat(conn)
            real = heartbeat.boottime
            monkeypatch.setattr(heartbeat, "boottime", lambda: real() + ME.lease_s)  # this machine was suspended
            lapses_at = await lease(conn)
            await beat(conn)
        finally:
            beats.stop()
        assert (in_flight.waiting, in_flight.running) == (0, 0)
        assert await lease(conn) == lapses_at


async def test_an_answer_about_an_older_lease_stops_no_newer_attempt(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a heartbeat that names a lease is on its way, the run is given back and claimed again."""
    loop, named = asyncio.get_running_loop(), asyncio.Event()
    in_flight = InFlightBuffer(
        {"returns": Handler("returns", returns)}, AttemptContext(loop, ME.worker_id, lambda: None), 10, threads=1
    )
    async with await connect(database) as conn:
        worker_store = WorkerStore(conn, ME)
        await worker_store.register_worker(["returns"])
        await conn.execute("insert into wakeboard.job_runs (job_type) values ('returns')")
        in_flight.take(await claimed(worker_store))
        real = heartbeat.renew

        async def again() -> None:
            old = in_flight.loop_lane.waiting.popleft()
            await worker_store.release([Release(old[0], old[1], reason=SNOOZED)])
            in_flight.take(await claimed(worker_store))

        def slow(*args: Any) -> list[Attention]:
            first = not named.is_set()
            if first:
                asyncio.run_coroutine_threadsafe(again(), loop).result()
            answers = real(*args)
            loop.call_soon_threadsafe(lambda: loop.call_soon(named.set))  # behind what is done with the answers
            return answers

        monkeypatch.setattr(heartbeat, "renew", slow)
        beats = Heartbeat(database, ME, in_flight)
        beats.start()
        try:
            await named.wait()
            await beat(conn)
        finally:
            beats.stop()
        assert [row[1] for row in in_flight.loop_lane.waiting] == [2]


async def beat(conn: psycopg.AsyncConnection[Any]) -> None:
    """Waits for the next one that is answered."""
    cursor = await conn.execute("select last_seen from wakeboard.workers")
    (seen,) = await cursor.fetchone() or (None,)
    await until(conn, f"select from wakeboard.workers where last_seen > '{seen}'")


async def lease(conn: psycopg.AsyncConnection[Any]) -> Any:
    return await (await conn.execute("select locked_until from wakeboard.job_runs")).fetchone()
