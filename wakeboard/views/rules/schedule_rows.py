"""A schedule in lists and in detail, its name, and its next ticks. The fields are public: they are keys of `--json`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

    from wakeboard.text.facts import Fact
    from wakeboard.views.rules.run_rows import RunRow


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleName:
    """How a schedule is addressed: by as much of source/namespace/name as makes it unique."""

    id: int
    source: str
    namespace: str
    name: str
    removed: bool

    @property
    def short(self) -> str:
        """namespace/name, as runs and logs show it."""
        return f"{self.namespace}/{self.name}"

    @property
    def full(self) -> str:
        """source/namespace/name."""
        return f"{self.source}/{self.short}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRow:
    """A schedule, its next tick, its last result and its runs.

    `generation` counts the specs that it has had, and `spec_hash` identifies the current one ("": of an application).
    `state`: active, suspended, paused, circuit open (after dead runs), stalled (`schedule_error` says why), on demand
    or ended (it has no further tick). `runs_after`: the names in spec.after, if it has any. `blocked`: what it waits
    for that does not pass by itself, if that was asked for. `last_*`: the run that ended last.
    """

    id: int
    namespace: str
    name: str
    source: str
    job_type: str
    queue: str
    priority: int
    schedule: str | None
    time_zone: str
    concurrency_policy: str
    generation: int
    spec_hash: str
    state: str
    schedule_error: str | None
    next_run_at: datetime | None
    runs_after: list[str] | None
    last_tick_at: datetime | None
    last_run_id: int | None
    last_status: str | None
    last_finished_at: datetime | None
    queued: int
    running: int
    failed: int
    dead: int
    blocked: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """One tick. `local`: the time in the time zone of the schedule. `note`: what a clock change does to it."""

    at: datetime
    local: str
    note: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NextTicks:
    """The next ticks in order: `at` in UTC, `local` in the time zone, `note` if a clock change affects the tick.

    `skipped`: a sentence for each local time in this period that does not exist because of a clock change.
    `schedule_error`: why the ticks of a stalled schedule cannot be computed.
    """

    schedule: str | None
    cron: str | None
    time_zone: str
    state: str
    schedule_error: str | None = None
    ticks: list[Tick]
    skipped: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleDetails:
    """A schedule. `facts`: as `explain` prints them. `runs`: first unfinished ones, then those that ended last."""

    id: int
    name: str
    source: str
    state: str
    schedule: str | None
    time_zone: str
    runs_after: list[str]
    job_type: str
    queue: str
    priority: int
    payload: Any
    facts: list[Fact]
    runs: list[RunRow]
    ticks: list[Tick]
