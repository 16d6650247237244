"""When a state of the installation is reported, and how bad it is: one table for the overview and `wakeboard check`.

`bad`: runs do not run, or will not; `wakeboard check` fails. `warn`: an administrator should look. `note`: worth
knowing, but intended or long known; `wakeboard check` says ok. Both programs add their words and what only they can
see.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal, TypeAlias

Severity: TypeAlias = Literal["bad", "warn", "note"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthCondition:
    """A state that is reported once it has lasted for `after`.

    `bad_after`: it is bad from then on, before that `severity`. `note_after`: it is a note from then on.
    """

    severity: Severity
    after: timedelta = timedelta()
    bad_after: timedelta | None = None
    note_after: timedelta | None = None

    def severity_after(self, lasted: timedelta) -> Severity | None:
        """How bad it is when it has lasted this long; None: it is not reported."""
        if lasted < self.after:
            return None
        if self.bad_after is not None and lasted >= self.bad_after:
            return "bad"
        if self.note_after is not None and lasted >= self.note_after:
            return "note"
        return self.severity


MINUTE: Final = timedelta(minutes=1)
DAY: Final = timedelta(days=1)

NO_WORKER: Final = HealthCondition(severity="bad", after=3 * MINUTE)  # since the last one was seen
NEVER_A_WORKER: Final = HealthCondition(severity="bad")  # while there are schedules or due runs
NOT_NEEDED_WORKER: Final = HealthCondition(severity="warn")  # never a worker, and nothing to run
HANGING_COMMITS: Final = HealthCondition(severity="bad")  # no synchronous standby confirms them
REFUSED_OPERATOR: Final = HealthCondition(severity="bad")  # it cannot list or watch JobSchedules
STALLED_SCHEDULE: Final = HealthCondition(severity="bad")
BLOCKED_SCHEDULE: Final = HealthCondition(severity="warn")  # waits for a dead run or a missing schedule
LOST_TICK: Final = HealthCondition(severity="bad")  # active, and its next tick is missing or too far away
OPEN_CIRCUIT: Final = HealthCondition(severity="warn")
DEPENDENCY_CYCLE: Final = HealthCondition(severity="bad")
MISSING_PARENT: Final = HealthCondition(severity="warn")  # of a schedule that runs after it
OVERDUE_SCHEDULE: Final = HealthCondition(severity="bad", after=5 * MINUTE)  # since its tick was due
UNSERVED_QUEUE: Final = HealthCondition(severity="warn", after=MINUTE, bad_after=10 * MINUTE)  # its oldest due run
UNKNOWN_JOB_TYPE: Final = HealthCondition(severity="warn", after=MINUTE, bad_after=10 * MINUTE)  # its oldest due run
WAITING_RUNS: Final = HealthCondition(severity="warn", after=5 * MINUTE)  # since the oldest was due
EXPIRED_LEASE: Final = HealthCondition(severity="bad", after=2 * MINUTE)  # they are reaped at least once a minute
DEAD_RUNS: Final = HealthCondition(severity="warn", note_after=DAY)  # since the newest died
PENDING_REMOVAL: Final = HealthCondition(severity="warn")
OPEN_ALERTS: Final[dict[str, Severity]] = {"critical": "bad", "warning": "warn", "info": "note"}  # by severity
FULL_LIMIT: Final = HealthCondition(severity="note")
DIFFERENT_LIMIT: Final = HealthCondition(severity="note")  # from what a file declares
PAUSES: Final[dict[str, HealthCondition]] = {
    "all": HealthCondition(severity="warn"),
    "queue": HealthCondition(severity="warn"),
    "schedule": HealthCondition(severity="note"),
}
