"""A cache of reads that lets many viewers share one query."""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

    from wakeboard.store.connection import AsyncConnection
    from wakeboard.views.replica import Reads

CACHE_S: Final = 1.0
LONGEST_KEPT_S: Final = 60.0
MAX_KEPT: Final = 200  # results, of which each may hold a payload

_Result = TypeVar("_Result")


@dataclass(slots=True)
class _Read:
    """A read that runs, or its result. `fresh_until`: on the monotonic clock."""

    task: asyncio.Task[Any]
    fresh_until: float = math.inf

    def answers(self, now: float) -> bool:
        if not self.task.done():
            return True
        return now <= self.fresh_until and not self.task.cancelled() and self.task.exception() is None


class SharedReads:
    """Answers equal queries from one read, however many viewers ask.

    At most one read of a key runs at a time. Its result is kept for `keep_s` seconds, or until `clear` or `forget`.
    `max_share`: a read that took long is kept longer, up to `LONGEST_KEPT_S`, so that the reads of one key take at most
    this share of the time. At most `MAX_KEPT` results are kept, the newest ones.
    """

    def __init__(self, pool: Reads, *, keep_s: float = CACHE_S, max_share: float = math.inf) -> None:
        self._pool, self._keep_s, self._max_share = pool, keep_s, max_share
        self._reads: dict[Hashable, _Read] = {}
        self._running: set[asyncio.Task[Any]] = set()

    async def get(self, key: Hashable, query: Callable[[AsyncConnection], Awaitable[_Result]]) -> _Result:
        """The result of `query`, which may be as old as the class says. `key` names the query and all its arguments.

        An error reaches all who wait for this read, and is not kept.
        """
        now = time.monotonic()
        found = self._reads.get(key)
        if found is None or not found.answers(now):
            self._drop_old(now)
            found = self._reads[key] = self._begin(query)
        return await asyncio.shield(found.task)  # a viewer who leaves does not stop the read for the others

    def clear(self) -> None:
        """Forgets finished reads: the store has changed."""
        self._reads = {key: read for key, read in self._reads.items() if not read.task.done()}

    def forget(self) -> None:
        """Forgets all reads: a later `get` sees everything that is committed now."""
        self._reads = {}

    async def close(self) -> None:
        """Stops the reads that run, also those whose callers have gone, so that none opens a connection later."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _drop_old(self, now: float) -> None:
        self._reads = {key: read for key, read in self._reads.items() if read.answers(now)}
        finished = [key for key, read in self._reads.items() if read.task.done()]
        for key in finished[: -MAX_KEPT + 1]:
            del self._reads[key]

    def _begin(self, query: Callable[[AsyncConnection], Awaitable[_Result]]) -> _Read:
        async def timed(conn: AsyncConnection) -> _Result:
            began = time.monotonic()
            result = await query(conn)
            longer = min((time.monotonic() - began) / self._max_share, LONGEST_KEPT_S)
            started.fresh_until = began + max(self._keep_s, longer)
            return result

        started = _Read(asyncio.create_task(self._pool.run(timed)))
        self._running.add(started.task)
        started.task.add_done_callback(self._running.discard)
        return started
