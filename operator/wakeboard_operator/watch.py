"""The changes of JobSchedules that the API server reports, and the watches that receive them.

The watch makes syncs fast. Lists make them correct (reconciler.py). It continues at the versions of the first list. A
watch that has lost its place (410) lists again, and one that stalls is begun again: one that has not delivered a
version which a list contained.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from wakeboard.kube.watch import Listener
from wakeboard_operator.resources import Key, Resource, number_of, resource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wakeboard.kube.watch import Watch
    from wakeboard_operator.kube_client import Listing

log = logging.getLogger("wakeboard.operator")

STALLED_AFTER_S: Final = 10.0
LOOK_EVERY_S: Final = 1.0


class Deleted(NamedTuple):
    """A reported deletion of the object `uid`."""

    uid: str


class PendingChanges(Listener):
    """The changes that are not yet synced: the latest of each resource."""

    def __init__(self) -> None:
        self._waiting: dict[Key, Resource | Deleted] = {}
        self._deleted: set[str] = set()  # uids, also of objects that were created again at once
        self._any = asyncio.Event()
        self._has_gap = False
        self.last_at = time.monotonic()

    def read(self, item: Mapping[str, Any]) -> None:
        """Keeps nothing of a list: the resync that it asks for has a list of its own."""

    def listed(self, items: Sequence[Any]) -> None:  # noqa: ARG002
        """Notes a gap: the watch had lost its place, and reports no change from before."""
        self._has_gap = True
        self._any.set()

    def changed(self, item: Mapping[str, Any], *, deleted: bool) -> None:
        """Adds a change."""
        found = resource(item)
        if deleted:
            self._deleted.add(found.uid)
        self._waiting[found.key] = Deleted(found.uid) if deleted else found
        self.last_at = time.monotonic()
        self._any.set()

    async def wait(self) -> None:
        """Waits for a change or a gap."""
        await self._any.wait()

    def take(self) -> dict[Key, Resource | Deleted]:
        """Returns all changes and clears them."""
        taken, self._waiting = self._waiting, {}
        self._any.clear()
        return taken

    def take_deleted(self) -> set[str]:
        """Returns the uids of the objects that were deleted since the last call."""
        taken, self._deleted = self._deleted, set()
        return taken

    def take_gap(self) -> bool:
        """Returns whether a watch has lost its place since the last call."""
        taken, self._has_gap = self._has_gap, False
        return taken


class WatchSupervisor:
    """Keeps the watches running, one for each watched namespace or one of all.

    `stalled` counts the stalled watches since the start.
    """

    def __init__(self, watches: Sequence[Watch], changes: PendingChanges) -> None:
        self._watches = watches
        self.changes = changes
        self._served = asyncio.Event()  # a list has succeeded: the CRD is installed and may be read
        self._expected: dict[str, tuple[int, float]] = {}  # by path: a version, and by when
        self.stalled = 0

    @property
    def restarts(self) -> int:
        """How often a watch has lost its place and begun again."""
        return sum(watch.lists for watch in self._watches)

    @property
    def problem(self) -> str | None:
        """Why changes cannot be watched; None: they are."""
        return next((f"the watch ended: {watch.problem}" for watch in self._watches if watch.problem), None)

    def expect(self, listing: Listing) -> None:
        """Expects the watches to deliver all that was listed within ten seconds. The first list begins them."""
        by = time.monotonic() + STALLED_AFTER_S
        for watch in self._watches:
            if not self._served.is_set():
                watch.version = listing.versions[watch.path]
            self._expected.setdefault(watch.path, (listing.newest[watch.path], by))
        self._served.set()

    async def run(self) -> None:
        """Watches until cancelled. Begins after the first successful list."""
        await self._served.wait()
        await asyncio.gather(*map(self._keep_running, self._watches))

    async def _keep_running(self, watch: Watch) -> None:
        while True:
            task = asyncio.create_task(watch.run())
            try:
                while not self._is_stalled(watch):  # noqa: ASYNC110 - a stall is the absence of events
                    await asyncio.sleep(LOOK_EVERY_S)
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            self.stalled += 1
            log.warning("the watch has not delivered what a list contained: it begins again")
            watch.version = ""

    def _is_stalled(self, watch: Watch) -> bool:
        """Whether it is connected, and what was expected of it is late. A watch without a place lists everything."""
        newest, by = self._expected.get(watch.path, (0, 0.0))
        if not watch.version or watch.problem or number_of(watch.version) >= newest:
            self._expected.pop(watch.path, None)
            return False
        return time.monotonic() > by
