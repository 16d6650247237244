"""Absences: schedules that the database has and a complete list does not show. Which of them may go, and when.

The API server reports a deletion with the object's uid: that is a person's or a controller's word, and needs no yes.
So it is with what was in a namespace that is gone.
What is only missing (deleted while nobody watched, or a list that shows less than there is) may be a mistake: a large
removal of such schedules is held (wakeboard.duties.removing). Both wait until a large change is over, so that one
decision is made about all of it. A resource definition that is deleted takes all its objects with it, each reported as
deleted: lists fail soon afterwards, and then every report is void.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from wakeboard.duties.removing import needs_a_yes

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from wakeboard.store.board import KnownDefinition

QUIET_S: Final = 2.0  # without a further deletion: a large one is over
ALL_GONE_S: Final = 10.0  # the same when nothing is left: a resource definition that is deleted goes last
UNREPORTED_S: Final = 5.0  # what is only missing is missing in two lists, this far apart, and has not grown
FORGET_S: Final = 600.0  # a report that no list has borne out


class Sorted(NamedTuple):
    """`reported`: may go now. `unreported`: may go now unless they are so many that a person must confirm it.

    `again_s`: a list is wanted in so many seconds; None: no sooner than usual.
    """

    reported: Sequence[KnownDefinition]
    unreported: Sequence[KnownDefinition]
    again_s: float | None


class Absences:
    """What the stream has reported and the lists have not shown. Moments are monotonic seconds."""

    def __init__(self) -> None:
        self._reported: dict[str, float] = {}  # uid -> when
        self._last_at = 0.0
        self._missing: frozenset[int] = frozenset()
        self._missing_since = 0.0

    def report(self, uid: str, now: float) -> None:
        """The API server says that this object was deleted."""
        self._reported[uid] = self._last_at = now

    def not_served(self) -> None:
        """JobSchedules are served no longer: their deletion was that of the resource definition."""
        self._reported.clear()

    def sort(self, absent: Sequence[KnownDefinition], live: int, now: float, gone: Collection[str] = ()) -> Sorted:
        """What may become of `absent`, out of `live` schedules, after a complete list.

        `gone`: namespaces that are deleted, or are being deleted. What was in them is no mistake.
        """
        uids = {each.uid for each in absent}
        self._reported = {uid: at for uid, at in self._reported.items() if uid in uids or now < at + FORGET_S}
        reported = [each for each in absent if each.uid in self._reported or each.namespace in gone]
        missing = [each for each in absent if not (each.uid in self._reported or each.namespace in gone)]
        doubtful = any(each.namespace not in gone for each in reported)  # a resource definition may be about to go
        waits = [
            self._reported_wait_s(len(reported), live, now, doubtful=doubtful),
            self._missing_wait_s(missing, now),
        ]
        again = [wait for wait in waits if wait > 0]
        return Sorted([] if waits[0] > 0 else reported, [] if waits[1] > 0 else missing, min(again) if again else None)

    def _reported_wait_s(self, reported: int, live: int, now: float, *, doubtful: bool) -> float:
        if not needs_a_yes(reported, live):
            return 0.0
        return self._last_at + (ALL_GONE_S if doubtful and reported == live else QUIET_S) - now

    def _missing_wait_s(self, missing: Sequence[KnownDefinition], now: float) -> float:
        ids = frozenset(each.id for each in missing)
        grown = not ids <= self._missing
        if grown:
            self._missing_since = now
        self._missing = ids
        return max(0.0, self._missing_since + UNREPORTED_S - now) if ids else 0.0
