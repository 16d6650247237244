"""Polls the store for events of runs and for runs that no worker serves, and prints what is new."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from wakeboard.errors import WakeboardError
from wakeboard.health.queries.facts import read_due
from wakeboard.local.messages import event_message
from wakeboard.text.facts import did_you_mean
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wakeboard.health.queries.facts import DueRuns
    from wakeboard.local.messages import Problems, UpLine
    from wakeboard.store.reconnecting import ReconnectingConnection
    from wakeboard.views.queries.recent_events import EventQueries, RunEvent

POLL_INTERVAL_S: Final = 0.5
PAUSE_FACTOR: Final = 10  # after a slow poll, pause ten times its duration to limit the load on a large database
MAX_PAUSE_S: Final = 10.0
UNSERVED_FOR: Final = timedelta(seconds=5)  # after a pause of the machine, all workers seem to be gone until one starts
OVERLAP: Final = timedelta(seconds=10)  # events are read again for so long, because commits may arrive out of order
MAX_DUE: Final = 1000  # runs of each queue and priority
LONG_RUN: Final = timedelta(seconds=1)  # a run that takes longer gets a line of its own while it executes


class EventPoller:
    """Prints events of runs. `program` is the command to type for wakeboard."""

    def __init__(
        self,
        connection: ReconnectingConnection[EventQueries],
        problems: Problems,
        emit: Callable[[UpLine], None],
        *,
        program: str,
    ) -> None:
        self._connection, self._problems, self._emit, self._program = connection, problems, emit, program
        self._began: datetime | None = None  # by the database's clock, as are the following
        self._polled_at: datetime | None = None  # events before this have been read
        self._unserved_since: dict[tuple[str, str], datetime] = {}
        self._printed: dict[tuple[str, int, int], datetime] = {}

    async def run(self) -> None:
        """Polls until cancelled. An unavailable database is reported as a problem."""
        while True:
            started_at = time.monotonic()
            try:
                await self.poll()
                self._problems.update("the database", [])
            except WakeboardError as error:
                self._problems.update("the database", [one_line(str(error))])
            await asyncio.sleep(pause_s(time.monotonic() - started_at))

    async def poll(self) -> None:
        """Prints new events once. Raises WakeboardError."""
        events = await self._connection.store()
        now = await events.now()
        self._began = self._began or now
        for event in await events.recent_events(max(self._began, (self._polled_at or now) - OVERLAP)):
            if event.key not in self._printed and not _just_started(event, now):
                self._printed[event.key] = event.at
                self._emit(event_message(event, self._program, now))
        self._polled_at = now
        self._printed = {key: at for key, at in self._printed.items() if at > now - 2 * OVERLAP}
        due = await read_due(events.conn, MAX_DUE)
        unserved = self._lasting([each for each in due if not each.type_served], now)
        self._problems.update("waiting runs", [_unserved_problem(each) for each in unserved])

    async def counts(self) -> dict[str, int]:
        """How many runs have ended since the first poll, by how they ended. Raises WakeboardError."""
        if self._began is None:
            return {}
        return await (await self._connection.store()).counts_since(self._began)

    def _lasting(self, unserved: Sequence[DueRuns], now: datetime) -> list[DueRuns]:
        """Returns those that have been unserved in every poll for UNSERVED_FOR."""
        since = {(each.job_type, each.queue): now for each in unserved}
        self._unserved_since = since | {key: at for key, at in self._unserved_since.items() if key in since}
        return [each for each in unserved if now - self._unserved_since[each.job_type, each.queue] >= UNSERVED_FOR]


def pause_s(poll_s: float) -> float:
    """How long to pause after a poll that took so long."""
    return min(MAX_PAUSE_S, max(POLL_INTERVAL_S, PAUSE_FACTOR * poll_s))


def _just_started(event: RunEvent, now: datetime) -> bool:
    return event.kind == "started" and now - event.at < LONG_RUN


def _unserved_problem(unserved: DueRuns) -> str:
    # Without their number, which grows: a changed problem is printed again.
    return (
        f"Runs of job type {one_line(unserved.job_type)} cannot start: no worker of queue"
        f" {one_line(unserved.queue)} has a handler for it.{did_you_mean(unserved.meant)}"
    )
