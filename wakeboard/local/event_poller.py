"""Follows the board: what happened since the last look is told, and what there is to see is shown."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from wakeboard.errors import WakeboardError
from wakeboard.local.picture import ViewState
from wakeboard.local.telling import happening_line
from wakeboard.rules.humanize import counted
from wakeboard.rules.sanitize import one_line
from wakeboard.store.queries.listings import PAST, RunFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from wakeboard.local.connection import LocalConnection
    from wakeboard.local.picture import Concerns, Waking
    from wakeboard.local.plain_lines import Screen
    from wakeboard.store.queries.listings import RunRow
    from wakeboard.store.queries.recent_events import Unserved

LOOK_EVERY_S: Final = 0.5
REST: Final = 10  # a look that takes long is followed by a pause of ten times its length: large boards stay fast
LOOK_BACK: Final = timedelta(seconds=10)  # for what was committed later than its moment says
UNDER_WAY: Final = ("running", "failed", "queued")
MOST_RUNS: Final = 60  # more than a screen holds


class EventPoller:
    """Looks at the board and feeds the screen."""

    def __init__(
        self, line: LocalConnection, screen: Screen, concerns: Concerns, waking: Callable[[], Waking], *, program: str
    ) -> None:
        self._line, self.screen, self._concerns, self._waking, self._program = line, screen, concerns, waking, program
        self._since: datetime | None = None
        self._told: dict[tuple[str, int, int], datetime] = {}
        self._picture = ViewState(datetime.now(UTC))
        self.counts: dict[str, int] = {}

    async def keep_looking(self) -> None:
        """Looks until it is cancelled. A board that is away is a concern, not the end."""
        while True:
            began = time.monotonic()
            try:
                await self.look()
                self._concerns.now("the database", [])
            except WakeboardError as error:
                self._concerns.now("the database", [one_line(str(error))])
            self.screen.show(self._picture, self._waking(), self._concerns.all)
            await asyncio.sleep(max(LOOK_EVERY_S, REST * (time.monotonic() - began)))

    async def look(self) -> None:
        """Looks once, tells what is new, and keeps the picture. Raises WakeboardError."""
        reports, live = await self._line.reports(), await self._line.live()
        now = await reports.now()
        since = self._since or now
        self._since = since
        for happening in await live.recent_events(max(since, now - LOOK_BACK)):
            if happening.key not in self._told:
                self._told[happening.key] = happening.at
                self.counts[happening.what] = self.counts.get(happening.what, 0) + 1
                self.screen.tell(happening_line(happening, self._program))
        self._told = {key: at for key, at in self._told.items() if at > now - 2 * LOOK_BACK}
        self._concerns.now("waiting runs", [_waits(each) for each in await live.unserved()])
        under_way = await reports.runs(RunFilter(statuses=UNDER_WAY), MOST_RUNS)
        dead = await reports.runs(RunFilter(statuses=("dead",)), MOST_RUNS)
        past = await reports.runs(RunFilter(statuses=PAST), MOST_RUNS)
        self._picture = ViewState(now, await reports.schedules(), [*under_way, *_latest_first((*dead, *past))])


def _latest_first(runs: Iterable[RunRow]) -> list[RunRow]:
    return sorted(runs, key=lambda run: run.dead_at or run.finished_at or run.created_at, reverse=True)


def _waits(it: Unserved) -> str:
    waits = "waits" if it.runs == 1 else "wait"
    return (
        f"{counted(it.runs, 'run')} of job type {one_line(it.job_type)} in queue {one_line(it.queue)} {waits}:"
        " no worker here knows that type and serves that queue."
    )
