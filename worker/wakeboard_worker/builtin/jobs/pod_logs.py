"""The logs of a Job's containers, init containers too: lines of its attempt, whose source is the container.

Each container is followed over a connection of its own while it runs, at a bounded pace. The rest, and what is beyond
MAX_STREAMS of a process, is read when the Job has ended. A worker that adopts a Job reads all from the beginning.
"""

from __future__ import annotations

import asyncio
import codecs
import math
import time
from typing import TYPE_CHECKING, Final

from wakeboard.kube.client import ApiRefused, ApiUnavailable
from wakeboard.process.backoff import BackoffDelays
from wakeboard_worker.builtin.jobs.tracker import CORE_API

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wakeboard.engine.run import Run
    from wakeboard_worker.builtin.jobs.cluster import JobCluster
    from wakeboard_worker.builtin.jobs.observed import ObservedPod
    from wakeboard_worker.builtin.jobs.tracker import Followed

MAX_STREAMS: Final = 200  # that a process follows at once
BYTES_PER_S: Final = 262_144  # of a container that runs
READ_WITHIN_S: Final = 5.0  # what is left of all logs when the Job has ended
SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 10.0


class PodLogs:
    """Reads the logs of the containers of a Job, from `follow` to `close`."""

    def __init__(self, run: Run, cluster: JobCluster, job: Followed) -> None:
        self._run, self._cluster, self._job = run, cluster, job
        self._readers: dict[tuple[str, str, int], asyncio.Task[None]] = {}  # by pod, container, and its restarts
        self._has_ended = False
        self._starter = asyncio.create_task(self._start_readers())

    async def close(self) -> None:
        """Read what is left, unless the attempt is given up or given back, and end."""
        self._starter.cancel()
        if not self._run.lost and (self._job.job.ended or self._job.gone):
            self._has_ended = True
            self._start_each()
        readers = self._readers.values()
        try:
            if self._has_ended and readers:
                await asyncio.wait(readers, timeout=READ_WITHIN_S)
        finally:
            for reader in readers:
                reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)

    async def _start_readers(self) -> None:
        while True:
            event = self._job.event
            self._start_each()
            await event.wait()

    def _start_each(self) -> None:
        for pod, container, restarts in self._begun():
            key = (pod.uid, container, restarts)
            if key not in self._readers and (self._has_ended or self._cluster.log_streams < MAX_STREAMS):
                self._cluster.log_streams += 1
                self._readers[key] = asyncio.create_task(self._read(pod, container))
                self._readers[key].add_done_callback(self._ended)

    def _begun(self) -> Iterator[tuple[ObservedPod, str, int]]:
        for pod in self._job.pods.values():
            for each in pod.containers:
                if each.started_at is not None or each.exit_code is not None:
                    yield pod, each.name, each.restarts

    def _ended(self, _: asyncio.Task[None]) -> None:
        self._cluster.log_streams -= 1

    async def _read(self, pod: ObservedPod, container: str) -> None:
        """Read one log to its end. A stream that breaks is opened again."""
        path = f"{CORE_API}/namespaces/{pod.namespace}/pods/{pod.name}/log"
        query = {"container": container, "follow": "true"}
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        problem, backoff, read_at = "", BackoffDelays(SHORTEST_PAUSE_S, LONGEST_PAUSE_S), time.monotonic()
        try:
            while True:
                try:
                    async with self._cluster.api.follow(path, query) as content:
                        async for chunk in content.iter_any():
                            problem, read_at = "", time.monotonic()
                            self._run.log_output(decoder.decode(chunk), container)
                            if not self._has_ended:
                                await asyncio.sleep(len(chunk) / BYTES_PER_S)
                except ApiUnavailable as error:
                    problem = str(error)
                else:
                    return
                await asyncio.sleep(backoff.next_s())
                # What was written around the break is read twice, rather than not at all.
                query["sinceSeconds"] = str(math.ceil(time.monotonic() - read_at) + 1)
        except ApiRefused as error:
            problem = str(error)  # such as: pods "report-wb-1" not found
        except asyncio.CancelledError:
            problem = problem or f"it was too long to be read in {READ_WITHIN_S:.0f} s" * self._has_ended
            raise
        finally:
            if problem:
                self._run.log_output(f"\nThe rest of the log of {container} could not be read: {problem}\n", container)
