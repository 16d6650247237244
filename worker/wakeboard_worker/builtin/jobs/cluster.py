"""What all attempts of a process share: the client, the watches, and the rate at which Jobs are created."""

from __future__ import annotations

import asyncio
import time
from contextvars import Context
from typing import TYPE_CHECKING, Any

from wakeboard_worker.builtin.jobs.orphans import delete_late

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from wakeboard.jobs.queries import RunState
    from wakeboard.kube.client import ApiClient
    from wakeboard_worker.builtin.jobs.tracker import Tracker


class CreationRate:
    """Lets through at most `per_second` callers, in their order. A caller that is cancelled takes no turn."""

    def __init__(self, per_second: float) -> None:
        self._interval_s = 1 / per_second
        self._next_at = 0.0
        self._first = asyncio.Lock()  # held by the caller whose turn is next

    async def turn(self) -> None:
        """Waits for this caller's turn."""
        async with self._first:
            at = max(time.monotonic(), self._next_at)
            await asyncio.sleep(at - time.monotonic())
            self._next_at = at + self._interval_s


class JobCluster:
    """What all attempts of a process share. `generation` returns the generation of the schedule that made the run."""

    def __init__(
        self,
        api: ApiClient,
        tracker: Tracker,
        rate: CreationRate,
        *,
        start_s: int,
        ttl_s: int,
        generation: Callable[[int], Awaitable[int | None]],
        run_states: Callable[[Sequence[int]], Awaitable[Mapping[int, RunState]]],
    ) -> None:
        self.api, self.tracker, self.rate = api, tracker, rate
        self.start_s, self.ttl_s, self.generation = start_s, ttl_s, generation
        self._run_states = run_states
        self.log_streams = 0  # of containers that are followed
        self.checks: set[asyncio.Task[None]] = set()

    def check_late(self, creation: asyncio.Task[dict[str, Any]]) -> None:
        """Deletes the Job of this creation if no attempt can adopt it."""
        check = asyncio.create_task(delete_late(self.api, creation, self._run_states), context=Context())
        self.checks.add(check)
        check.add_done_callback(self.checks.discard)
