"""Searches that examine many runs leave connections to the other pages."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from wakeboard.views.queries.run_list import RunPage

if TYPE_CHECKING:
    from tests.board.asgi import Client
    from wakeboard.store.connection import AsyncConnection

pytestmark = pytest.mark.anyio


async def test_searches_that_take_long_do_not_hold_up_other_pages(client: Client, monkeypatch: pytest.MonkeyPatch):
    began = asyncio.Event()

    async def read_for_2_s(conn: AsyncConnection, *_: Any, **__: Any) -> RunPage:
        began.set()
        await conn.execute("select pg_sleep(2)")
        return RunPage(now=datetime.now(UTC), runs=[], newer=None, older=None, searched=None)

    await client.get("/runs", q="payload.customer:0")
    await client.get("/schedules")
    monkeypatch.setattr("wakeboard.board.pages.runs.read_run_page", read_for_2_s)
    searches = [asyncio.create_task(client.get("/runs", q=f"payload.customer:{number}")) for number in range(1, 5)]
    await began.wait()

    assert (await client.get("/schedules", q="a")).status == 200
    assert not any(search.done() for search in searches)
    assert {search.status for search in await asyncio.gather(*searches)} == {200}


async def test_a_board_that_stops_ends_the_reads_whose_callers_have_gone(client: Client):
    began = asyncio.Event()

    async def read(conn: AsyncConnection) -> None:
        began.set()
        await conn.execute("select pg_sleep(60)")

    waiting = asyncio.create_task(client.board.reads.get("slow", read))
    await began.wait()
    waiting.cancel()
    client.board.forget_reads()
    async with asyncio.timeout(30):
        await client.board.close()

    assert all(
        task.done() for task in asyncio.all_tasks() - {asyncio.current_task()} if "ConnectionPool.run" in repr(task)
    )
