"""Several tasks may share a connection: no statement runs in the transaction of another task."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.rows import dict_row

from wakeboard.errors import WakeboardError
from wakeboard.store.admin_api import AdminStore
from wakeboard.store.connection import connect
from wakeboard.store.queries.listings import Listings
from wakeboard.store.statements import connection_lock, read

if TYPE_CHECKING:
    import psycopg

pytestmark = pytest.mark.anyio


async def test_reads_and_calls_of_many_tasks_do_not_meet_in_a_transaction(database: str):
    async with await connect(database) as conn:
        reports, store = Listings(conn), AdminStore(conn)

        for _ in range(5):
            await asyncio.gather(*(reports.pauses() for _ in range(5)), *(store.pause("all", "x") for _ in range(5)))
            await asyncio.gather(*(store.resume("all") for _ in range(5)), *(reports.now() for _ in range(5)))

        assert not conn.info.transaction_status


async def test_a_read_that_fails_takes_no_call_of_another_task_with_it(database: str):
    async with await connect(database) as conn:
        failing = [asyncio.create_task(_fail(conn)) for _ in range(10)]
        paused = [asyncio.create_task(AdminStore(conn).pause(f"queue:q{number}", "")) for number in range(10)]
        await asyncio.gather(*failing, *paused)

        assert len(await Listings(conn).pauses()) == 10


async def test_a_task_that_is_cancelled_gives_its_turn_back(database: str):
    async with await connect(database) as conn:
        async with connection_lock(conn):
            waiting = asyncio.create_task(Listings(conn).pauses())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
        assert await Listings(conn).pauses() == []


async def _fail(conn: psycopg.AsyncConnection[Any]) -> None:
    with pytest.raises(WakeboardError):
        await read(conn, dict_row, "select 1 / 0")
