"""Ownership: decides whether this database runs a JobSchedule whose status names another installation.

Many users may write a status, so `status.installation` alone is no proof. The first line that applies decides:

    this database has a live row with the uid of the object     ours, whatever the status names
    the status names this installation, or none                 ours
    the status names another one, and this release wrote it     ours: the release was given another database
    WAKEBOARD_ADOPT_FOREIGN_SCHEDULES is set                    ours
    otherwise                                                   the other installation's

The status of one schedule of the other installation is written once, as not Ready. An operator that runs it repairs
the status within a second; then this operator leaves all schedules of that installation alone. If the status is not
repaired, no operator runs them. Each of them then reports that in its status, in an event and in the metrics, with the
command that takes it over.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from wakeboard_operator.problems import FOREIGN, ScheduleProblem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wakeboard.schedules.calls import KnownDefinition
    from wakeboard_operator.resources import Key, Resource

REPAIR_TIMEOUT_S: Final = 10.0  # the time for a repair; a running operator needs well under a second
RECHECK_S: Final = 3600.0  # after a repair, until the next status is written


class Ownership:
    """Decides for one installation which schedules are its own."""

    def __init__(self, installation: str, release: str, *, adopt: bool) -> None:
        self._installation, self._release, self._adopt = installation, release, adopt
        self._rows: dict[Key, str] = {}  # the uid of each live row of this database
        self._other_owners: dict[Key, str] = {}  # schedule -> the other installation that it belongs to
        self._taken: Counter[str] = Counter()
        self.others = OtherInstallations()

    def rows(self, known: Iterable[KnownDefinition]) -> None:
        """Stores which schedules have a live row in this database."""
        self._rows = {(each.namespace, each.name): each.uid for each in known if not each.removed}

    def problem(self, found: Resource) -> ScheduleProblem | None:
        """Returns why this operator does not run the schedule, or None if it is ours."""
        other = self._owner(found)
        if other is None:
            self._other_owners.pop(found.key, None)
            return None
        self._other_owners[found.key] = other
        return ScheduleProblem(
            FOREIGN,
            f"It was run by another database (installation {other}). This operator uses installation"
            f" {self._installation}, so it does not run here. If that database is gone or is not to run it any more,"
            " take it over: helm upgrade with --set operator.adoptForeignSchedules=true"
            " (WAKEBOARD_ADOPT_FOREIGN_SCHEDULES=true).",
        )

    def remove(self, key: Key) -> None:
        """Drops a schedule whose resource is gone."""
        self._other_owners.pop(key, None)

    def other_owner(self, key: Key) -> str:
        """The other installation that a schedule belongs to."""
        return self._other_owners[key]

    def taken_over(self) -> Counter[str]:
        """How many schedules were taken over since the last call, by the installation that ran them."""
        taken, self._taken = self._taken, Counter()
        return taken

    def counts(self, now: float) -> dict[str, int]:
        """Number of schedules of other installations: `answers` if an operator repaired a status, `silent` if none did.

        While an installation may still answer, its schedules are neither.
        """
        owners = self._other_owners.values()
        return {
            "answers": sum(self.others.answers(each) for each in owners),
            "silent": sum(self.others.is_silent(each, now) for each in owners),
        }

    def _owner(self, found: Resource) -> str | None:
        """Returns the other installation that it belongs to, or None if it is ours."""
        other = found.status.get("installation")
        if not other or other == self._installation or self._rows.get(found.key) == found.uid:
            return None
        if self._adopt or (self._release and found.status.get("release") == self._release):
            self._taken[other] += found.key not in self._rows
            return None
        return str(other)


class OtherInstallations:
    """Which other installations have an operator that repairs statuses. `now` is in monotonic seconds."""

    def __init__(self) -> None:
        self._probed: dict[str, tuple[Key, float]] = {}  # the schedule whose status was written, and when
        self._answered: dict[str, float] = {}

    def answers(self, installation: str) -> bool:
        """Whether an operator of this installation repaired a status within the last hour or so."""
        return installation in self._answered

    def is_silent(self, installation: str, now: float) -> bool:
        """Whether no operator of this installation repaired a status in the time that it had."""
        if installation in self._answered or installation not in self._probed:
            return False
        _, requested_at = self._probed[installation]
        return now >= requested_at + REPAIR_TIMEOUT_S

    def record_repair(self, installation: str, now: float) -> None:
        """Records that a status that this operator wrote was repaired."""
        self._answered[installation] = now

    def probe_wait_s(self, installation: str, key: Key, now: float) -> float:
        """Seconds until the status of a schedule of that installation may be written; 0: now."""
        answered_at = self._answered.get(installation)
        if answered_at is not None:
            if now < answered_at + RECHECK_S:
                return answered_at + RECHECK_S - now
            del self._answered[installation], self._probed[installation]
        probed, requested_at = self._probed.setdefault(installation, (key, now))
        return 0.0 if probed == key else max(0.0, requested_at + REPAIR_TIMEOUT_S - now)
