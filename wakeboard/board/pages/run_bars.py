"""A strip of small bars, one for each of the last runs of a schedule. Colours are outcomes, heights are durations."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, timedelta
from math import sqrt
from typing import TYPE_CHECKING, Final

from wakeboard.text.humanize import counted, lasted, reason_in_words

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from wakeboard.views.queries.schedule_list import RecentRun

BAR_COUNT: Final = 20
STEP: Final = 7  # units of the drawing from one bar to the next
HEIGHT: Final = 24
LEAST_BAR: Final = 4  # the height of a run that took no time, so that it can be seen


@dataclass(frozen=True, slots=True)
class RunBar:
    """One run. `x`, `y`, `height`: in the drawing, whose top is 0."""

    run_id: int
    status: str
    x: int
    y: float
    height: float
    title: str


@dataclass(frozen=True, slots=True)
class Strip:
    """The bars of one schedule, oldest first, and what they say in words."""

    bars: tuple[RunBar, ...]
    label: str

    @property
    def width(self) -> int:
        """The width of the drawing, the same for each schedule."""
        return BAR_COUNT * STEP


def strip_of(runs: Sequence[RecentRun], now: datetime) -> Strip:
    """The strip of these runs, of which there are at most BAR_COUNT, oldest first."""
    durations = [_duration(run, now) for run in runs]
    longest = max((duration for duration in durations if duration), default=timedelta())
    bars = [
        _bar(run, duration, longest, place * STEP)
        for place, (run, duration) in enumerate(zip(runs, durations, strict=True))
    ]
    return Strip(tuple(bars), _label(runs))


def _bar(run: RecentRun, duration: timedelta | None, longest: timedelta, x: int) -> RunBar:
    share = sqrt(duration / longest) if duration and longest else 0.0
    height = round(LEAST_BAR + share * (HEIGHT - LEAST_BAR), 1)
    return RunBar(run.id, run.status, x, HEIGHT - height, height, _title(run, duration))


def _duration(run: RecentRun, now: datetime) -> timedelta | None:
    if run.started_at is None or run.status == "skipped":
        return None
    return max((run.ended_at or now) - run.started_at, timedelta())


def _title(run: RecentRun, duration: timedelta | None) -> str:
    moment = f"{run.scheduled_for.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    reason = reason_in_words(run.reason, run.status)
    if run.status == "skipped":
        ticks = counted(run.skipped_count or 1, "tick")
        return f"{ticks} did not run from {moment}: {reason}" if reason else f"{ticks} did not run from {moment}"
    took = "" if duration is None else f" {'for' if run.status == 'running' else 'in'} {lasted(duration)}"
    return f"Run {run.id} of {moment}: {run.status}{took}{f' ({reason})' if reason else ''}"


def _label(runs: Sequence[RecentRun]) -> str:
    if not runs:
        return "No run yet"
    outcomes = Counter(run.status for run in runs)
    shares = ", ".join(f"{number} {status}" for status, number in outcomes.most_common())
    return f"Last {counted(len(runs), 'run')}: {shares}"
