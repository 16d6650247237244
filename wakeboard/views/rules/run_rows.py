"""A run as lists show it, and as it is stored. The fields are public: they are keys of `--json`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import datetime, timedelta
    from uuid import UUID

# Statuses after which nothing happens to a run by itself. A dead one runs again if an administrator retries it.
ENDED: Final = frozenset({"succeeded", "cancelled", "discarded", "skipped", "dead"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A run, live or finished. A skipped run can represent many ticks, from `scheduled_for` to `skipped_until`.

    `definition_generation`: the generation of its schedule from which it was created.
    """

    id: int
    uuid: UUID
    status: str
    schedule: str | None
    definition_generation: int | None
    job_type: str
    queue: str
    priority: int
    trigger: str
    scheduled_for: datetime
    run_at: datetime
    created_at: datetime
    started_at: datetime | None
    failed_at: datetime | None
    dead_at: datetime | None
    finished_at: datetime | None
    attempts: int
    max_attempts: int
    crash_count: int
    release_count: int
    progress: float | None
    progress_message: str | None
    cancel_requested_at: datetime | None
    limit_key: str | None
    error_type: str | None
    error: str | None
    reason: str | None
    skipped_until: datetime | None
    skipped_count: int | None

    @property
    def due_since(self) -> datetime:
        """Since when it has been due; DUE_SINCE of views/queries/listings.py is the same in SQL."""
        return self.run_at if self.trigger == "tick" else max(self.run_at, self.created_at)

    @property
    def duration(self) -> timedelta | None:
        """How long its last attempt took; None: it has none, or it is running."""
        ended = self.finished_at or self.failed_at
        if self.started_at is None or ended is None or ended < self.started_at or self.status == "running":
            return None
        return ended - self.started_at


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun(RunRow):
    """A run as it is stored. `payload` and `result` are JSON texts. `worker`: the one that has it, or had it last.

    `traceparent`, `tracestate`: the trace context (W3C) of its enqueue. `spec_hash`: of the spec from which it was
    created; None if its schedule has another spec now. `schedule_generation`: of its schedule now; None: it is gone.
    `locked_until`: the end of its lease; None: no worker has it.
    """

    payload: str
    result: str | None
    definition_id: int | None
    spec_hash: str | None
    schedule_generation: int | None
    idempotency_key: str | None
    traceparent: str | None
    tracestate: str | None
    start_before: datetime | None
    timeout_s: int
    backoff_strategy: str
    backoff_base_s: int
    backoff_cap_s: int
    lease_epoch: int
    locked_until: datetime | None
    worker: str | None
    stack: str | None
    cancel_reason: str | None

    @property
    def trace_id(self) -> str:
        """The id of the trace of its enqueue; empty: it has none."""
        return (self.traceparent or "")[3:35]
