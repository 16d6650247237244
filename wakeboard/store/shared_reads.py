"""A cache of reads that lets many viewers share one query."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

    from wakeboard.store.connection import AsyncConnection
    from wakeboard.store.connection_pool import ConnectionPool

CACHE_S: Final = 1.0

_Result = TypeVar("_Result")


class SharedReads:
    """Answers equal queries from one read, however many viewers ask.

    At most one read of a key runs at a time. Its result is kept for `keep_s` seconds, or until `clear` or `forget`.
    """

    def __init__(self, pool: ConnectionPool, *, keep_s: float = CACHE_S) -> None:
        self._pool, self._keep_s = pool, keep_s
        self._reads: dict[Hashable, tuple[float, asyncio.Task[Any]]] = {}
        self._running: set[asyncio.Task[Any]] = set()

    async def get(self, key: Hashable, query: Callable[[AsyncConnection], Awaitable[_Result]]) -> _Result:
        """The result of `query`, which may be up to `keep_s` old. `key` names the query and all its arguments.

        An error reaches all who wait for this read, and is not kept.
        """
        now = time.monotonic()
        kept = self._reads.get(key)
        if kept is None or (kept[1].done() and (now - kept[0] > self._keep_s or _failed(kept[1]))):
            self._forget(now)
            kept = self._reads[key] = (now, asyncio.create_task(self._pool.run(query)))
            self._running.add(kept[1])
            kept[1].add_done_callback(self._running.discard)
        return await asyncio.shield(kept[1])  # a viewer who leaves does not stop the read for the others

    def clear(self) -> None:
        """Forgets finished reads: the store has changed."""
        self._reads = {key: kept for key, kept in self._reads.items() if not kept[1].done()}

    def forget(self) -> None:
        """Forgets all reads: a later `get` sees everything that is committed now."""
        self._reads = {}

    async def close(self) -> None:
        """Stops the reads that run, also those whose callers have gone, so that none opens a connection later."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _forget(self, now: float) -> None:
        self._reads = {
            key: kept for key, kept in self._reads.items() if not kept[1].done() or now - kept[0] <= self._keep_s
        }


def _failed(task: asyncio.Task[Any]) -> bool:
    return task.cancelled() or task.exception() is not None
