"""Reports worker processes that have ended, so that their runs are claimable at once and not after a lease.

The leader lists and watches the pods of the workers in its own namespace. `terminations` decides which processes have
certainly ended. Each is reported once; after a restart of the operator once more, which changes nothing. A pod can end
its own processes only: any process of a pod can write a termination message and name any worker in it, so a worker that
registered with the uid of another pod is left alone.

The watch and the reports are two tasks: while the database does not answer, what was seen waits. Without the right to
watch pods, or without a namespace, nothing is reported, and leases decide.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from wakeboard.kube.watch import Listener
from wakeboard.text.humanize import counted
from wakeboard_operator.terminations import terminations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from wakeboard.schedules.leader_api import LeaderStore
    from wakeboard_operator.terminations import Termination

log = logging.getLogger("wakeboard.operator")

RETRY_LOCKED_S: Final = 1.0
MAX_RETRIES: Final = 60  # of a report that met locked runs: then their leases have expired, or soon will
MAX_KNOWN: Final = 10_000  # reported processes that are remembered

_Key: TypeAlias = "tuple[int | None, str]"  # a worker or None, and the uid of the pod that said so


class EndedWorkers(Listener):
    """The terminations to report, and those that were seen before. Used in one event loop."""

    def __init__(self) -> None:
        self._waiting: dict[_Key, tuple[Termination, float, int]] = {}  # not before time.monotonic(); retries
        self._known: OrderedDict[_Key, None] = OrderedDict()
        self._changed = asyncio.Event()

    def read(self, item: Mapping[str, Any]) -> Iterable[Termination]:
        """The processes of a pod that have certainly ended."""
        return terminations(item)

    def listed(self, items: Sequence[Iterable[Termination]]) -> None:
        """Adds those of each pod that were not seen before."""
        for found in chain.from_iterable(items):
            key = found.worker, found.pod_uid
            if key not in self._known:
                self._known[key] = None
                self._waiting[key] = found, 0.0, 0
                self._changed.set()
        while len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)

    def changed(self, item: Mapping[str, Any], *, deleted: bool) -> None:  # noqa: ARG002
        """Adds those of a pod, also of a deleted one: its last state says how it ended."""
        self.listed([self.read(item)])

    async def report(self, store: LeaderStore, record: Callable[[str, int], None]) -> None:
        """Reports until cancelled. `record` gets the cause and the number of attempts that it ended.

        Raises WakeboardError; what is not reported yet stays.
        """
        while True:
            self._changed.clear()
            for key, (found, _, retries) in [each for each in self._waiting.items() if each[1][1] <= time.monotonic()]:
                skipped = False
                for worker in await store.workers_of_pod(found.pod_uid, found.worker):
                    runs = await store.report_worker_terminated(worker, found.cause, found.detail, found.pod)
                    _log(found, ended := runs.released + runs.crashed + runs.cancelled)
                    record(found.cause, ended)
                    skipped = skipped or runs.skipped > 0
                if skipped and retries < MAX_RETRIES:
                    self._waiting[key] = found, time.monotonic() + RETRY_LOCKED_S, retries + 1
                else:
                    del self._waiting[key]
            with suppress(TimeoutError):
                async with asyncio.timeout(RETRY_LOCKED_S if self._waiting else None):
                    await self._changed.wait()


def _log(found: Termination, runs: int) -> None:
    if runs:
        why = f"{found.cause}: {found.detail}" if found.detail else found.cause
        log.info("a worker of the pod %s was terminated (%s): took back %s", found.pod, why, counted(runs, "run"))
