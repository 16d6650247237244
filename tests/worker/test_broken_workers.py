"""A worker whose task has failed exits, so that other workers can claim its runs."""

from __future__ import annotations

import asyncio

import pytest

from wakeboard_worker.worker import wait_for_first

pytestmark = pytest.mark.anyio


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
