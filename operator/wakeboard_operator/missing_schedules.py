"""Missing schedules: those in the database and not in a complete list. Decides which may be removed, and when.

A deletion that the API server reports carries the uid of the object: it is intended and needs no confirmation. The same
holds for objects of a namespace that was deleted.

A schedule that is only missing may be a mistake: it was deleted while no operator watched, or the list is incomplete. A
large removal of such schedules waits for a confirmation (wakeboard.schedules.prune).

Both kinds wait until the change has ended, because few deletions may be the first ones of many. So one decision covers
all of it. The API server reports the deletion of a custom resource definition as the deletion of each object. Lists
fail soon afterwards, and then all reports are dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from wakeboard.schedules.prune import needs_confirmation

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from wakeboard.schedules.calls import KnownDefinition

QUIET_S: Final = 2.0  # without a further report: a deletion has ended
ALL_DELETED_S: Final = 10.0  # the same if no object is left: a resource definition is deleted after its objects
SMALL_S: Final = 10.0  # since the first report: a deletion that is still small does not wait for its end any longer
STABLE_S: Final = 5.0  # between two lists in which the same schedules, or fewer, are missing
REPORT_EXPIRES_S: Final = 600.0  # for a report that no list has confirmed


class RemovalDecision(NamedTuple):
    """`reported`: may be removed now. `unreported`: may be removed now, with a confirmation if they are many.

    `resync_in_s`: seconds until the next resync is needed (None: at the usual interval).
    """

    reported: Sequence[KnownDefinition]
    unreported: Sequence[KnownDefinition]
    resync_in_s: float | None


class MissingSchedules:
    """Records reported deletions and schedules missing from lists. `now` is in monotonic seconds."""

    def __init__(self) -> None:
        self._reported: dict[str, float] = {}  # uid -> when
        self._last_report_at = 0.0
        self._missing: frozenset[int] = frozenset()
        self._missing_since = 0.0

    def record_deletion(self, uid: str, now: float) -> None:
        """Records that the API server reported the deletion of this object."""
        self._reported[uid] = self._last_report_at = now

    def clear(self) -> None:
        """Drops all reports. Call it when the API server no longer serves JobSchedules, because their CRD is gone."""
        self._reported.clear()

    def decide(
        self, missing: Sequence[KnownDefinition], live: int, now: float, deleted_namespaces: Collection[str] = ()
    ) -> RemovalDecision:
        """Decides which of `missing` may be removed after a complete list. `live`: the number of stored schedules.

        Schedules of `deleted_namespaces` (deleted or terminating) count as reported.
        """
        uids = {each.uid for each in missing}
        self._reported = {uid: at for uid, at in self._reported.items() if uid in uids or now < at + REPORT_EXPIRES_S}
        reported = [each for each in missing if each.uid in self._reported or each.namespace in deleted_namespaces]
        ids = {each.id for each in reported}
        unreported = [each for each in missing if each.id not in ids]
        crd_may_be_deleted = any(each.namespace not in deleted_namespaces for each in reported)
        waits = [
            self._reported_wait_s(reported, live, now, crd_may_be_deleted=crd_may_be_deleted),
            self._unreported_wait_s(unreported, now),
        ]
        positive = [wait for wait in waits if wait > 0]
        return RemovalDecision(
            [] if waits[0] > 0 else reported, [] if waits[1] > 0 else unreported, min(positive) if positive else None
        )

    def _reported_wait_s(
        self, reported: Sequence[KnownDefinition], live: int, now: float, *, crd_may_be_deleted: bool
    ) -> float:
        if not reported:
            return 0.0
        quiet_at = self._last_report_at + QUIET_S
        if not needs_confirmation(len(reported), live):
            first_at = min((self._reported[each.uid] for each in reported if each.uid in self._reported), default=now)
            return min(quiet_at, first_at + SMALL_S) - now
        return (
            self._last_report_at + ALL_DELETED_S if crd_may_be_deleted and len(reported) == live else quiet_at
        ) - now

    def _unreported_wait_s(self, unreported: Sequence[KnownDefinition], now: float) -> float:
        ids = frozenset(each.id for each in unreported)
        if not ids <= self._missing:
            self._missing_since = now
        self._missing = ids
        return max(0.0, self._missing_since + STABLE_S - now) if ids else 0.0
