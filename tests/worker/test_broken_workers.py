"""A worker of which a part has broken ends, so that others take what it holds."""

from __future__ import annotations

import asyncio

import pytest

from wakeboard_worker.worker import first_end

pytestmark = pytest.mark.anyio


async def test_the_end_of_one_part_is_the_end_of_all() -> None:
    async def breaks() -> None:
        raise MemoryError("no room for an outcome")

    goes_on = asyncio.create_task(asyncio.sleep(60))
    with pytest.raises(MemoryError, match="no room"):
        await first_end([goes_on, asyncio.create_task(breaks())])
    goes_on.cancel()


async def test_work_that_is_done_is_no_error() -> None:
    goes_on = asyncio.create_task(asyncio.sleep(60))
    await first_end([asyncio.create_task(asyncio.sleep(0)), goes_on])
    goes_on.cancel()
