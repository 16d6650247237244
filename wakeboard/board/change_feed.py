"""Tells open pages that the store has changed. An event names no run: a page asks again for what it shows.

With LISTEN the database notifies the board when a run may be due, and pages follow within 250 ms. The database does not
notify when a run ends or an administrator acts elsewhere. So every second, while a page is open, pages ask again too.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal

from wakeboard.errors import WakeboardError
from wakeboard.store.notifications import notifications

if TYPE_CHECKING:
    from collections.abc import Callable

DEBOUNCE_S: Final = 0.25
POLL_S: Final = 1.0
RETRY_S: Final = 2.0
MAX_STREAMS: Final = 500


class ChangeFeed:
    """Wakes all event streams when the store may have changed. It works only while there are streams."""

    def __init__(self, dsn: str, *, listen: bool, on_change: Callable[[], None]) -> None:
        self._dsn, self._listen, self._on_change = dsn, listen, on_change
        self._streams: set[asyncio.Event] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._notified = asyncio.Event()
        self.listening = False
        self.closed = False

    @property
    def source(self) -> Literal["listen", "poll"]:
        """Where changes come from now: notifications of the database and polling, or polling alone."""
        return "listen" if self.listening else "poll"

    @property
    def is_full(self) -> bool:
        """Whether as many pages are open as one board serves."""
        return len(self._streams) >= MAX_STREAMS

    def subscribe(self) -> asyncio.Event:
        """An event that is set at each change until `unsubscribe`."""
        changed = asyncio.Event()
        self._streams.add(changed)
        if not self._tasks:
            self._tasks = [asyncio.create_task(self._poll())]
            if self._listen:
                self._tasks += [asyncio.create_task(self._receive()), asyncio.create_task(self._publish_notified())]
        return changed

    def unsubscribe(self, changed: asyncio.Event) -> None:
        """Ends a subscription."""
        self._streams.discard(changed)
        if not self._streams:
            self._stop()

    def publish(self) -> None:
        """Wakes all streams."""
        self._on_change()
        for changed in self._streams:
            changed.set()

    def end_streams(self) -> None:
        """Ends all streams, and those that begin later."""
        self.closed = True
        self.publish()
        self._stop()

    def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._tasks = []
        self.listening = False

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            self.publish()

    async def _receive(self) -> None:
        """Reads notifications as fast as they come, so that none wait in the database."""
        while True:
            with suppress(WakeboardError):
                async for _ in notifications(self._dsn):
                    self.listening = True
                    self._notified.set()
            self.listening = False
            await asyncio.sleep(RETRY_S)

    async def _publish_notified(self) -> None:
        while True:
            await self._notified.wait()
            self._notified.clear()
            self.publish()
            await asyncio.sleep(DEBOUNCE_S)
