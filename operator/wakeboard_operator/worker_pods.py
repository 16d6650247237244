"""Reports worker processes that have ended, so that their runs are claimable at once and not after a lease.

The leader lists the pods of the workers in its own namespace, then watches them from that version on. Bookmarks keep
the version recent, and a version that is too old (410) leads to a new list. `terminations` decides which processes have
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
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from wakeboard.text.humanize import counted
from wakeboard_operator.kube_client import ListFailed
from wakeboard_operator.terminations import terminations

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wakeboard.schedules.leader_api import LeaderStore
    from wakeboard_operator.kube_client import Cluster
    from wakeboard_operator.terminations import Termination

log = logging.getLogger("wakeboard.operator")

MIN_BACKOFF_S, MAX_BACKOFF_S = 1.0, 30.0
RETRY_LOCKED_S: Final = 1.0
MAX_RETRIES: Final = 60  # of a report that met locked runs: then their leases have expired, or soon will
MAX_KNOWN: Final = 10_000  # reported processes that are remembered

_Key: TypeAlias = "tuple[int | None, str]"  # a worker or None, and the uid of the pod that said so


class EndedWorkers:
    """The terminations to report, and those that were seen before. Used in one event loop."""

    def __init__(self) -> None:
        self._waiting: dict[_Key, tuple[Termination, float, int]] = {}  # not before time.monotonic(); retries
        self._known: OrderedDict[_Key, None] = OrderedDict()
        self._changed = asyncio.Event()

    def add(self, pod: Mapping[str, Any]) -> None:
        """Adds the processes of this pod that have certainly ended and were not seen before."""
        for found in terminations(pod):
            key = found.worker, found.pod_uid
            if key not in self._known:
                self._known[key] = None
                self._waiting[key] = found, 0.0, 0
                self._changed.set()
        while len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)

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


class WorkerPodWatch:
    """The watch of the workers' pods in a namespace."""

    def __init__(self, cluster: Cluster, namespace: str, ended: EndedWorkers) -> None:
        self._cluster, self._namespace, self._ended = cluster, namespace, ended
        self._version = ""  # of the last list, event or bookmark; empty: list first
        self._backoff_s = MIN_BACKOFF_S

    async def run(self) -> None:
        """Watches until cancelled. Logs a problem once, and tries again."""
        logged = ""
        while True:
            began = time.monotonic()
            try:
                await self._watch()
                logged = ""
            except ListFailed as error:
                if error.reason != "unavailable":
                    self._version = ""
                if str(error) != logged and error.reason != "expired":
                    log.warning("ended workers are not noticed before their leases expire: %s", error)
                logged = str(error)
            if time.monotonic() - began < MIN_BACKOFF_S:
                await asyncio.sleep(self._backoff_s)
                self._backoff_s = min(MAX_BACKOFF_S, 2 * self._backoff_s)

    async def _watch(self) -> None:
        if not self._version:
            pods, self._version = await self._cluster.worker_pods(self._namespace)
            for pod in pods:
                self._ended.add(pod)
        async for event in self._cluster.watch_worker_pods(self._namespace, self._version):
            self._version = event["object"]["metadata"]["resourceVersion"]
            self._backoff_s = MIN_BACKOFF_S
            if event["type"] != "BOOKMARK":
                self._ended.add(event["object"])
