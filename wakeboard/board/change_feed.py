"""Streams of server-sent events, which tell open pages and clients of the API that the store has changed.

A change names no run: each stream reads again what it shows, or lets its page do so.

With LISTEN the database notifies the board when a run may be due, and pages follow within 250 ms. The database does not
notify when a run ends or an administrator acts elsewhere. So every second, while a page is open, pages ask again too.

`UpdateBudget` says how long the next update waits, so that all updates together take a bounded part of a CPU, in the
board and in the database. An update that costs more than `SHARE * LONGEST_WAIT_S` exceeds it. On a quiet machine one
page follows each second, ten different ones every few seconds. While workers use all CPUs, queries take longer and
pages follow less often.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from wakeboard.errors import WakeboardError
from wakeboard.store.notifications import notifications

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

DEBOUNCE_S: Final = 0.25
POLL_S: Final = 1.0
RETRY_S: Final = 2.0
SHARE: Final = 0.04  # of a CPU, for the board's thread and its transactions together
BURST_S: Final = 0.5
LONGEST_WAIT_S: Final = 10.0
HEARTBEAT_S: Final = 15.0
LIFETIME_S: Final = 600.0  # of a stream. A client that does not read takes all that is sent in this time.
MAX_STREAMS: Final = 500
MAX_STREAMS_OF_ONE: Final = 100  # of one viewer, or for one run token
MAX_WATCHERS: Final = 300  # with run tokens: they leave room for the pages of the board


class Subscriber(NamedTuple):
    """Who reads a stream: a viewer by name, or a browser with a token for the run that is named."""

    name: str
    has_run_token: bool = False


class News(NamedTuple):
    """What a stream sends now: messages, or "" if nothing has changed.

    `last`: it ends with them. `more`: others follow without a change.
    """

    text: str = ""
    last: bool = False
    more: bool = False


def message(event: str, data: str = "") -> str:
    """A message of a stream. `data` is one line."""
    return f"event: {event}\ndata: {data}\n\n"


class UpdateBudget:
    """Bounds the part of the time that updates take. It grows by `SHARE` of the time, up to `BURST_S`.

    Times are readings of a monotonic clock and of the time that updates have used, in seconds.
    """

    def __init__(self, now: float, used: float) -> None:
        self._now, self._used, self._left = now, used, BURST_S

    def wait_s(self, now: float, used: float) -> float:
        """How long the next update has to wait, at most LONGEST_WAIT_S."""
        self._left = min(BURST_S, self._left + SHARE * (now - self._now) - (used - self._used))
        self._left = max(self._left, -SHARE * LONGEST_WAIT_S)
        self._now, self._used = now, used
        return max(0.0, -self._left / SHARE)

    def forgive(self, used: float) -> None:
        """Does not count what was used until now."""
        self._used = used


class ChangeFeed:
    """Wakes all event streams when the store may have changed. It works only while there are streams.

    `reading_s`: how long the pages' transactions were open until now, in sum.
    """

    def __init__(
        self, dsn: str, *, listen: bool, on_change: Callable[[], None], reading_s: Callable[[], float]
    ) -> None:
        self._dsn, self._listen, self._on_change, self._reading_s = dsn, listen, on_change, reading_s
        self._streams: dict[asyncio.Event, Subscriber] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._ending: set[asyncio.Task[None]] = set()
        self._notified = asyncio.Event()
        self._budget = UpdateBudget(time.monotonic(), self._used_s())
        self.listening = False
        self.closed = False

    @property
    def source(self) -> Literal["listen", "poll"]:
        """Where changes come from now: notifications of the database and polling, or polling alone."""
        return "listen" if self.listening else "poll"

    def has_room(self, subscriber: Subscriber) -> bool:
        """Whether one more stream is opened for this subscriber."""
        all_of_them = self._streams.values()
        return (
            len(all_of_them) < MAX_STREAMS
            and sum(each == subscriber for each in all_of_them) < MAX_STREAMS_OF_ONE
            and sum(each.has_run_token for each in all_of_them)
            < (MAX_WATCHERS if subscriber.has_run_token else MAX_STREAMS)
        )

    async def messages(
        self, subscriber: Subscriber, news: Callable[[], Awaitable[News]], *, lasts_s: float = LIFETIME_S
    ) -> AsyncIterator[str]:
        """The messages of a stream: the news at once and after each change, and `alive` after 15 s without any.

        News that cannot be read now are tried at the next change. A `renew` message ends the stream after ten minutes,
        or `lasts_s` if that is less: its client opens another one, so it must still have the permission, and a client
        that is gone holds no stream.
        """
        if not self.has_room(subscriber):  # several have asked at once
            return
        changed = self.subscribe(subscriber)
        changed.set()
        heard = time.monotonic()
        end = heard + min(lasts_s, LIFETIME_S)
        try:
            yield "retry: 2000\n\n"
            while not self.closed and time.monotonic() < end:
                said = News()
                if changed.is_set():
                    changed.clear()
                    with suppress(WakeboardError):
                        said = await news()
                if said.text or time.monotonic() >= heard + HEARTBEAT_S:
                    yield said.text or message("alive")
                    heard = time.monotonic()
                    await asyncio.sleep(DEBOUNCE_S * bool(said.text))
                if said.last:
                    return
                if said.more:
                    changed.set()
                with suppress(TimeoutError):
                    async with asyncio.timeout(max(0.0, min(heard + HEARTBEAT_S, end) - time.monotonic())):
                        await changed.wait()
            if not self.closed:
                yield message("renew")
        finally:
            self.unsubscribe(changed)

    def subscribe(self, subscriber: Subscriber) -> asyncio.Event:
        """An event that is set at each change until `unsubscribe`."""
        changed = asyncio.Event()
        self._streams[changed] = subscriber
        self._budget.forgive(self._used_s())  # what it cost to load the page does not delay its updates
        if not self._tasks:
            self._tasks = [asyncio.create_task(self._publish_changes())]
            if self._listen:
                self._tasks.append(asyncio.create_task(self._receive()))
        return changed

    def unsubscribe(self, changed: asyncio.Event) -> None:
        """Ends a subscription."""
        self._streams.pop(changed, None)
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

    async def close(self) -> None:
        """As `end_streams`, and waits until its connection is closed."""
        self.end_streams()
        await asyncio.gather(*self._ending, return_exceptions=True)

    def _stop(self) -> None:
        for task in self._tasks:
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
            task.cancel()
        self._tasks = []
        self.listening = False

    async def _publish_changes(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_S - DEBOUNCE_S):
                    await self._notified.wait()
            await asyncio.sleep(self._budget.wait_s(time.monotonic(), self._used_s()))
            self._notified.clear()
            self.publish()
            await asyncio.sleep(DEBOUNCE_S)

    async def _receive(self) -> None:
        """Reads notifications as fast as they come, so that none wait in the database."""
        while True:
            with suppress(WakeboardError):
                async for _ in notifications(self._dsn):
                    self.listening = True
                    self._notified.set()
            self.listening = False
            await asyncio.sleep(RETRY_S)

    def _used_s(self) -> float:
        return time.thread_time() + self._reading_s()
