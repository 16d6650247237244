"""Telling the board what became of attempts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from wakeboard.handlers import Handler
from wakeboard.store.connection import connect
from wakeboard.store.leasing import SNOOZED, Leasing, Marks, Release, Worker, text_array
from wakeboard_worker.attempts import Attempt, Surroundings
from wakeboard_worker.desk import Desk
from wakeboard_worker.heartbeat import Heartbeat
from wakeboard_worker.lines import Line
from wakeboard_worker.settling import Settling

if TYPE_CHECKING:
    import psycopg

    from wakeboard.store.leasing import ClaimedRow

pytestmark = pytest.mark.anyio

ME = Worker(7, "me", "default", "", "", ["default"], 10, 60)


async def returns(run: Any) -> None:
    """A handler."""


async def claimed(leasing: Leasing) -> list[ClaimedRow]:
    return await leasing.claim(Marks(["default"]), text_array(["returns"]), 10)


async def test_a_result_on_its_way_outlives_a_loss_of_trust_that_its_lease_outlives(database: str) -> None:
    around = Surroundings(asyncio.get_running_loop(), ME.nonce, lambda: None)
    desk = Desk({"returns": Handler("returns", returns)}, around, concurrency=10, threads=1)
    line, blocked_line = (Line(database, ME, what, prepared_statements=False) for what in ("outcomes", "blocked"))
    async with await connect(database) as conn, await connect(database) as stranger:
        leasing = Leasing(conn, ME)
        await conn.execute("insert into wakeboard.job_runs (job_type) values ('returns'), ('returns'), ('returns')")
        first, second, third = await claimed(leasing)
        desk.take([third])
        await leasing.release([Release(second[0], second[1], reason=SNOOZED)])
        (second,) = await claimed(leasing)  # under another epoch: it is told after the first
        for row in (first, second):
            desk.succeed(Attempt(row, around), {"of": row[0]})
        async with stranger.transaction():
            await stranger.execute("select from wakeboard.job_runs where id = %s for update", (first[0],))
            settling = Settling(desk, line, blocked_line, Heartbeat(database, ME, desk), ME.lease_s)
            telling = [asyncio.create_task(settling.run()), asyncio.create_task(settling.run_blocked())]
            await until(conn, "select from pg_stat_activity where wait_event_type = 'Lock'")
            desk.lose_everything()
        await until(conn, "select from wakeboard.job_run_history having count(*) = 2")
        cursor = await conn.execute("select (result -> 'of')::bigint = id from wakeboard.job_run_history")
        assert await cursor.fetchall() == [(True,), (True,)]
        for task in telling:
            task.cancel()
        await line.close()
        await blocked_line.close()


async def until(conn: psycopg.AsyncConnection, query: str) -> None:
    while not await (await conn.execute(query.encode())).fetchall():  # noqa: ASYNC110 - another session's state
        await asyncio.sleep(0.01)
