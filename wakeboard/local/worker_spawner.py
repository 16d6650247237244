"""Wakes workers as the cluster does, only sooner: at each minute boundary, and at once when something is due.

A worker that drains goes when nothing is due, and nothing will be in a few seconds. While one runs, no other is woken
(unless it is so old that it claims no more). Between two boundaries the board is asked, once a second and at each
notice, whether something has *become* due since the last question. So a run that no worker may take (its queue is
paused, nobody knows its type) wakes one worker, and not one after the other.

When handlers change, a worker that is idle is asked to go and a new one is woken; one that runs something finishes.
"""

from __future__ import annotations

import asyncio
import math
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from wakeboard.errors import WakeboardError
from wakeboard.local.picture import Waking
from wakeboard.local.telling import UP, OutputLine

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from wakeboard.local.child_process import ChildProcess
    from wakeboard.store.queries.recent_events import Due

LOOK_EVERY_S: Final = 1.0
SOUND_AFTER_S: Final = 1.5  # a worker that still runs by then has read its handlers


class Needs(Protocol):
    """What the board is asked."""

    async def due_since(self, since: datetime | None) -> Due:
        """Whether something has become due since then; None: whether anything is due at all."""
        ...

    async def busy(self) -> bool:
        """Whether something runs."""
        ...


class WorkerSpawner:
    """`start` starts a worker; `killed` is told when a signal ended one.

    `troubled` is told the sentence of a worker that could not work, and "" when one could.
    """

    def __init__(
        self,
        start: Callable[[], Awaitable[ChildProcess]],
        needs: Needs,
        *,
        tell: Callable[[OutputLine], None],
        troubled: Callable[[str], None],
        killed: Callable[[], None],
        every_s: float,
        lifetime_s: float,
    ) -> None:
        self._start, self._needs, self._tell = start, needs, tell
        self._troubled, self._killed = troubled, killed
        self._every_s, self._lifetime_s = every_s, lifetime_s
        self._workers: dict[ChildProcess, asyncio.Task[None]] = {}
        self._nudged = asyncio.Event()
        self._renewing = False
        self._asked_to_go: set[ChildProcess] = set()
        self._asked_at: datetime | None = None
        self._boundary = boundary_after(time.time(), every_s)
        self.last_words = ""  # of the worker that was woken last, if it said why it could not work

    @property
    def waking(self) -> Waking:
        """For the view."""
        return Waking(len(self._running()), self._boundary - time.time())

    def nudge(self) -> None:
        """The board has called for workers: look at once."""
        self._nudged.set()

    def renew(self) -> None:
        """What workers read when they start has changed: have it read."""
        self._renewing = True
        self._nudged.set()

    async def keep_waking(self) -> None:
        """Wakes one at once, and from then on as this module says."""
        await self._wake()
        while True:
            nudged = await self._pause(min(self._boundary - time.time(), LOOK_EVERY_S))
            if time.time() >= self._boundary:
                self._boundary = boundary_after(time.time(), self._every_s)
                if not any(worker.age_s < self._lifetime_s for worker in self._running()):
                    await self._wake()
            elif self._renewing:
                await self._renew()
            elif not self._running() and await self._is_due(nudged=nudged):
                await self._wake()

    async def stop(self, grace_s: float, insisted: asyncio.Event) -> None:
        """Asks every worker to finish, and ends those that have not when the grace is over or somebody insists."""
        for worker in self._running():
            worker.ask_to_end()
        watching = list(self._workers.values())
        insisting = asyncio.create_task(insisted.wait())
        pending = set(watching)
        deadline = time.monotonic() + grace_s
        while pending and time.monotonic() < deadline and not insisted.is_set():
            _, pending = await asyncio.wait(
                {*pending, insisting}, timeout=deadline - time.monotonic(), return_when=asyncio.FIRST_COMPLETED
            )
            pending.discard(insisting)
        for worker in self._running():
            worker.kill()
        insisting.cancel()
        await asyncio.gather(*watching, return_exceptions=True)

    def _running(self) -> list[ChildProcess]:
        return [worker for worker in self._workers if worker.running]

    async def _pause(self, seconds: float) -> bool:
        """Waits; True: somebody nudged."""
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds)):
                await self._nudged.wait()
        nudged = self._nudged.is_set()
        self._nudged.clear()
        return nudged

    async def _is_due(self, *, nudged: bool) -> bool:
        try:
            answer = await self._needs.due_since(None if nudged else self._asked_at)
        except WakeboardError:
            return False  # a board that is away is told about elsewhere
        first = self._asked_at is None
        self._asked_at = answer.at
        return answer.due and (nudged or not first)

    async def _renew(self) -> None:
        if not self._running():
            self._renewing = False
            await self._wake()
            return
        try:
            busy = await self._needs.busy()
        except WakeboardError:
            return
        for worker in self._running():
            if not busy and worker not in self._asked_to_go:
                self._asked_to_go.add(worker)
                worker.ask_to_end()

    async def _wake(self) -> None:
        self.last_words = ""
        try:
            worker = await self._start()
        except (WakeboardError, OSError) as error:
            self._troubled(str(error))
            return
        self._workers[worker] = asyncio.create_task(self._watch(worker))

    async def _watch(self, worker: ChildProcess) -> None:
        ending = asyncio.create_task(worker.ended())
        await asyncio.wait([ending], timeout=SOUND_AFTER_S)
        if not ending.done():
            self._troubled("")
        code = await ending
        del self._workers[worker]
        self._asked_to_go.discard(worker)
        self._judge(code)
        if self._renewing:
            self._nudged.set()

    def _judge(self, code: int) -> None:
        if code == 0:
            self._troubled("")
        elif code < 0:
            name = signal.Signals(-code).name
            told = f"the worker was ended by {name}; its runs come back when their leases lapse."
            self._tell(OutputLine(UP, told, "warn"))
            self._killed()
        else:
            self._troubled(self.last_words or f"the worker ended with exit code {code}.")


def boundary_after(moment: float, every_s: float) -> float:
    """The next whole minute (or other step), as the system's clock counts seconds."""
    return (math.floor(moment / every_s) + 1) * every_s
