"""The heartbeat and what it renews."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.worker.test_settling import claimed, returns, until
from wakeboard.handlers import Handler
from wakeboard.store.connection import connect
from wakeboard.store.leasing import SNOOZED, Attention, Leasing, Release, Worker
from wakeboard_worker import heartbeat
from wakeboard_worker.attempts import Surroundings
from wakeboard_worker.desk import Desk
from wakeboard_worker.heartbeat import Heartbeat

if TYPE_CHECKING:
    import psycopg

pytestmark = pytest.mark.anyio

ME = Worker(7, "me", "default", "", "", ["default"], 10, lease_s=4)


async def test_leases_that_are_given_up_lapse_when_they_would_have(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The beat that finds trust gone may be answered at once, before the event loop has dropped what it holds."""
    around = Surroundings(asyncio.get_running_loop(), ME.nonce, lambda: None)
    desk = Desk({"returns": Handler("returns", returns)}, around, concurrency=10, threads=1)
    async with await connect(database) as conn:
        leasing = Leasing(conn, ME)
        await leasing.register(["returns"])
        await conn.execute("insert into wakeboard.job_runs (job_type) values ('returns')")
        desk.take(await claimed(leasing))
        beats = Heartbeat(database, ME, desk)
        beats.start()
        try:
            await beat(conn)
            real = heartbeat.clock
            monkeypatch.setattr(heartbeat, "clock", lambda: real() + ME.lease_s)  # this machine has slept
            lapses_at = await lease(conn)
            await beat(conn)
        finally:
            beats.stop()
        assert (desk.waiting, desk.running) == (0, 0)
        assert await lease(conn) == lapses_at


async def test_an_answer_about_an_older_lease_stops_no_newer_attempt(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a heartbeat that names a lease is on its way, the run is given back and claimed again."""
    loop, named = asyncio.get_running_loop(), asyncio.Event()
    desk = Desk({"returns": Handler("returns", returns)}, Surroundings(loop, ME.nonce, lambda: None), 10, threads=1)
    async with await connect(database) as conn:
        leasing = Leasing(conn, ME)
        await leasing.register(["returns"])
        await conn.execute("insert into wakeboard.job_runs (job_type) values ('returns')")
        desk.take(await claimed(leasing))
        real = heartbeat.renew

        async def again() -> None:
            old = desk.loop_lane.waiting.popleft()
            await leasing.release([Release(old[0], old[1], reason=SNOOZED)])
            desk.take(await claimed(leasing))

        def slow(*args: Any) -> list[Attention]:
            first = not named.is_set()
            if first:
                asyncio.run_coroutine_threadsafe(again(), loop).result()
            answers = real(*args)
            loop.call_soon_threadsafe(lambda: loop.call_soon(named.set))  # behind what is done with the answers
            return answers

        monkeypatch.setattr(heartbeat, "renew", slow)
        beats = Heartbeat(database, ME, desk)
        beats.start()
        try:
            await named.wait()
            await beat(conn)
        finally:
            beats.stop()
        assert [row[1] for row in desk.loop_lane.waiting] == [2]


async def beat(conn: psycopg.AsyncConnection[Any]) -> None:
    """Waits for the next one that is answered."""
    cursor = await conn.execute("select last_seen from wakeboard.workers")
    (seen,) = await cursor.fetchone() or (None,)
    await until(conn, f"select from wakeboard.workers where last_seen > '{seen}'")


async def lease(conn: psycopg.AsyncConnection[Any]) -> Any:
    return await (await conn.execute("select locked_until from wakeboard.job_runs")).fetchone()
