"""Absences: schedules that are in the database and not in a complete list. Which of them may be removed, and when.

A deletion that the API server reports carries the object's uid: it is intended and needs no confirmation. The same
holds for objects of a namespace that is gone.

A schedule that is only missing may be a mistake: it was deleted while no operator watched, or the list is incomplete.
A large removal of such schedules is held (wakeboard.maintenance.prune).

Both kinds wait until a large change has ended, so that one decision covers all of it. The deletion of a resource
definition is reported as the deletion of each object. Lists fail soon afterwards, and all reports are then void.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from wakeboard.maintenance.prune import needs_confirmation

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from wakeboard.store.maintenance_api import KnownDefinition

QUIET_S: Final = 2.0  # without a further report: a large deletion has ended
ALL_GONE_S: Final = 10.0  # the same if no object is left: a resource definition is deleted after its objects
UNREPORTED_S: Final = 5.0  # between two lists in which the same schedules, or fewer, are missing
FORGET_S: Final = 600.0  # after this a report is dropped that no list has confirmed


class Sorted(NamedTuple):
    """`reported`: may be removed now. `unreported`: may be removed now, with a confirmation if they are many.

    `again_s`: seconds until the next list is needed; None: at the usual interval.
    """

    reported: Sequence[KnownDefinition]
    unreported: Sequence[KnownDefinition]
    again_s: float | None


class MissingSchedules:
    """Records reported deletions and schedules missing from lists. `now` is in monotonic seconds."""

    def __init__(self) -> None:
        self._reported: dict[str, float] = {}  # uid -> when
        self._last_at = 0.0
        self._missing: frozenset[int] = frozenset()
        self._missing_since = 0.0

    def report(self, uid: str, now: float) -> None:
        """Records that the API server reported the deletion of this object."""
        self._reported[uid] = self._last_at = now

    def not_served(self) -> None:
        """Drops all reports: JobSchedules are not served any more, so their resource definition was deleted."""
        self._reported.clear()

    def sort(self, absent: Sequence[KnownDefinition], live: int, now: float, gone: Collection[str] = ()) -> Sorted:
        """Which of `absent` may be removed after a complete list. `live`: how many schedules the database has.

        `gone`: namespaces that are deleted or terminating. Schedules of these count as reported.
        """
        uids = {each.uid for each in absent}
        self._reported = {uid: at for uid, at in self._reported.items() if uid in uids or now < at + FORGET_S}
        reported = [each for each in absent if each.uid in self._reported or each.namespace in gone]
        missing = [each for each in absent if not (each.uid in self._reported or each.namespace in gone)]
        doubtful = any(each.namespace not in gone for each in reported)  # perhaps the resource definition is deleted
        waits = [
            self._reported_wait_s(len(reported), live, now, doubtful=doubtful),
            self._missing_wait_s(missing, now),
        ]
        again = [wait for wait in waits if wait > 0]
        return Sorted([] if waits[0] > 0 else reported, [] if waits[1] > 0 else missing, min(again) if again else None)

    def _reported_wait_s(self, reported: int, live: int, now: float, *, doubtful: bool) -> float:
        if not needs_confirmation(reported, live):
            return 0.0
        return self._last_at + (ALL_GONE_S if doubtful and reported == live else QUIET_S) - now

    def _missing_wait_s(self, missing: Sequence[KnownDefinition], now: float) -> float:
        ids = frozenset(each.id for each in missing)
        grown = not ids <= self._missing
        if grown:
            self._missing_since = now
        self._missing = ids
        return max(0.0, self._missing_since + UNREPORTED_S - now) if ids else 0.0
