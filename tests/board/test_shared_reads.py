"""Equal reads of many viewers are one, and a slow one is repeated less often."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

from wakeboard.views import shared_reads
from wakeboard.views.shared_reads import SharedReads

if TYPE_CHECKING:
    from wakeboard.views.connection_pool import ConnectionPool

pytestmark = pytest.mark.anyio


class Clock:
    """A monotonic clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


class Pool:
    """A pool whose reads take `took_s` of the clock. Counts them."""

    def __init__(self, clock: Clock, took_s: float) -> None:
        self.clock, self.took_s, self.reads = clock, took_s, 0

    async def run(self, query: Any) -> Any:
        self.reads += 1
        return await query(self)

    async def answer(self, _: Any) -> int:
        await asyncio.sleep(0)
        self.clock.now += self.took_s
        return self.reads


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(shared_reads, "time", clock)
    return clock


@pytest.mark.parametrize(("took_s", "kept_s"), [(0.001, 10), (0.02, 10), (0.1, 50), (1.0, 60)])
async def test_a_read_is_kept_the_longer_the_longer_it_took(clock: Clock, took_s: float, kept_s: float):
    pool = Pool(clock, took_s)
    reads = SharedReads(cast("ConnectionPool", pool), keep_s=10, max_share=0.002)
    began = clock.now
    assert await reads.get("count", pool.answer) == 1
    clock.now = began + kept_s - 0.1
    assert await reads.get("count", pool.answer) == 1
    clock.now = began + kept_s + 0.1
    assert await reads.get("count", pool.answer) == 2


async def test_equal_reads_at_the_same_time_are_one(clock: Clock):
    pool = Pool(clock, 0.1)
    reads = SharedReads(cast("ConnectionPool", pool))
    assert await asyncio.gather(*(reads.get("page", pool.answer) for _ in range(10))) == [1] * 10
    assert await reads.get("another page", pool.answer) == 2


async def test_an_error_reaches_all_and_is_not_kept(clock: Clock):
    pool = Pool(clock, 0.1)
    reads = SharedReads(cast("ConnectionPool", pool), keep_s=10)

    async def fails(_: Any) -> None:
        await asyncio.sleep(0)
        raise ValueError("no")

    found = await asyncio.gather(*(reads.get("page", fails) for _ in range(3)), return_exceptions=True)
    assert [str(each) for each in found] == ["no"] * 3
    assert await reads.get("page", pool.answer) == 2
