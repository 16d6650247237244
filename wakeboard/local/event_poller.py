"""Polls the store for run events and the current state, prints new events and updates the view."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from wakeboard.errors import WakeboardError
from wakeboard.local.view import ViewState, event_message
from wakeboard.rules.humanize import counted
from wakeboard.rules.sanitize import one_line
from wakeboard.store.queries.listings import PAST, RunFilter
from wakeboard.store.queries.recent_events import EventQueries

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wakeboard.local.view import Problems, View
    from wakeboard.local.worker_spawner import WorkerSpawner
    from wakeboard.store.queries.listings import Listings, RunRow
    from wakeboard.store.queries.recent_events import Unserved
    from wakeboard.store.reconnecting import ReconnectingConnection

POLL_INTERVAL_S: Final = 0.5
PAUSE_FACTOR: Final = 10  # after a slow poll, pause ten times its duration to limit the load on a large database
MAX_PAUSE_S: Final = 10.0
UNSERVED_FOR: Final = timedelta(seconds=5)  # after a pause of the machine, all workers seem to be gone until one starts
OVERLAP: Final = timedelta(seconds=10)  # events are read again for so long, because commits may arrive out of order
UNFINISHED: Final = ("running", "failed", "queued")
MAX_RUNS: Final = 60  # more than a screen shows


class EventPoller:
    """Feeds the view from the store."""

    def __init__(
        self,
        connection: ReconnectingConnection[Listings],
        view: View,
        problems: Problems,
        spawner: WorkerSpawner,
        *,
        program: str,
    ) -> None:
        self._connection, self.view, self._problems, self._spawner = connection, view, problems, spawner
        self._program = program
        self._began: datetime | None = None  # by the database's clock, as are the following
        self._polled_at: datetime | None = None  # events before this have been read
        self._unserved_since: dict[tuple[str, str], datetime] = {}
        self._printed: dict[tuple[str, int, int], datetime] = {}
        self._state = ViewState(datetime.now(UTC))

    async def run(self) -> None:
        """Polls until cancelled. An unavailable database is reported as a problem."""
        while True:
            started_at = time.monotonic()
            try:
                await self.poll()
                self._problems.update("the database", [])
            except WakeboardError as error:
                self._problems.update("the database", [one_line(str(error))])
            self.view.render(
                replace(
                    self._state,
                    workers=self._spawner.worker_count,
                    next_wake_s=self._spawner.next_wake_s,
                    problems=self._problems.all,
                )
            )
            await asyncio.sleep(pause_s(time.monotonic() - started_at))

    async def poll(self) -> None:
        """Prints new events and reads the current state once. Raises WakeboardError."""
        listings = await self._connection.store()
        live = EventQueries(listings.conn)
        now = await listings.now()
        self._began = self._began or now
        for event in await live.recent_events(max(self._began, (self._polled_at or now) - OVERLAP)):
            if event.key not in self._printed:
                self._printed[event.key] = event.at
                self.view.print(event_message(event, self._program))
        self._polled_at = now
        self._printed = {key: at for key, at in self._printed.items() if at > now - 2 * OVERLAP}
        unserved = self._lasting(await live.unserved(), now)
        self._problems.update("waiting runs", [_unserved_problem(each) for each in unserved])
        unfinished = await listings.runs(RunFilter(statuses=UNFINISHED), MAX_RUNS)
        dead = await listings.runs(RunFilter(statuses=("dead",)), MAX_RUNS)
        past = await listings.runs(RunFilter(statuses=PAST), MAX_RUNS)
        self._state = ViewState(now, await listings.schedules(), [*unfinished, *_newest_first((*dead, *past))])

    async def counts(self) -> dict[str, int]:
        """How many runs have ended since the first poll, by how they ended. Raises WakeboardError."""
        if self._began is None:
            return {}
        return await EventQueries((await self._connection.store()).conn).counts_since(self._began)

    def _lasting(self, unserved: Sequence[Unserved], now: datetime) -> list[Unserved]:
        """Returns those that have been unserved in every poll for UNSERVED_FOR."""
        since = {(each.job_type, each.queue): now for each in unserved}
        self._unserved_since = since | {key: at for key, at in self._unserved_since.items() if key in since}
        return [each for each in unserved if now - self._unserved_since[each.job_type, each.queue] >= UNSERVED_FOR]


def pause_s(poll_s: float) -> float:
    """How long to pause after a poll that took so long."""
    return min(MAX_PAUSE_S, max(POLL_INTERVAL_S, PAUSE_FACTOR * poll_s))


def _newest_first(runs: Iterable[RunRow]) -> list[RunRow]:
    return sorted(runs, key=lambda run: run.dead_at or run.finished_at or run.created_at, reverse=True)


def _unserved_problem(unserved: Unserved) -> str:
    runs = f"At least {counted(unserved.runs, 'run')}" if unserved.more else counted(unserved.runs, "run")
    return (
        f"{runs} of job type {one_line(unserved.job_type)} cannot start: no worker of queue"
        f" {one_line(unserved.queue)} has a handler for it."
    )
