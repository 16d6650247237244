"""The rows of the model: a run and a rate limit, as they should be in the store."""

from __future__ import annotations

from dataclasses import dataclass, field

Rank = tuple[int, int]  # of run_at: long ago, then ticks, then the moments of operations


@dataclass
class ModelRun:
    """A run, live or finished. `locked`: a handler's open transaction has locked it."""

    id: int
    job_type: str = "ping"
    queue: str = "a"
    priority: int = 3
    limit_key: str | None = None
    max_attempts: int = 3
    due: bool = True
    rank: Rank = (0, 0)
    status: str = "queued"
    by: int = 0
    epoch: int = 0
    attempts: int = 0
    crashes: int = 0
    releases: int = 0
    expired: str = ""  # crash: its worker stopped its heartbeats; timeout: it ran for too long
    cancel: bool = False
    cancel_reason: str = ""
    started: bool = False
    waits_for_start: bool = False  # the last heartbeat of its lease said that no handler has started
    began: bool = False  # under an earlier lease
    error_type: str | None = None
    definition: int | None = None
    trigger: str = "application"
    tick: int | None = None  # also of its replays
    late_from: int | None = None  # so many hours after the start of the example
    reason: str | None = None
    live: bool = True
    locked: bool = False
    shared_limit_key: str | None = None  # of its schedule, in addition to the schedule's own key
    has_dependents: bool = False  # others may wait for its end, so it is noted
    waiting: bool = False  # until other runs have succeeded
    later: bool = False  # its own time has not come
    died: int = 0  # the number of the event
    ended: int = 0  # the number of the event

    @property
    def rated_key(self) -> str | None:
        """The limit key whose units its starts take."""
        return self.shared_limit_key or self.limit_key

    @property
    def waits(self) -> bool:
        """Whether a worker may claim it once it is due."""
        return self.live and self.status in {"queued", "failed"}

    def free(self, *, began: bool = True) -> None:
        """Ends its lease."""
        self.by, self.expired = 0, ""
        self.began = self.started = self.began or began


NotedEnd = tuple[int, int | None, int | None, str]  # run, schedule, tick, succeeded or ended


@dataclass
class ModelRate:
    """A rate limit. No unit comes back unless the machine says so. `starts`: when each run started, in units' times."""

    burst: int
    used: int = 0
    time: int = 0
    starts: list[int] = field(default_factory=list[int])

    def take(self, units: int) -> None:
        """Takes units, or all that there are."""
        self.used = min(self.burst, self.used + units)
