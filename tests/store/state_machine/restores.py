"""The server forgets its last commits: a backup is put in its place, and takes itself for another server.

The processes remember: workers go on with leases that the server has never granted, or has granted to runs that are
gone. What the server does not remember may happen again, each time once.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tests.store.state_machine.hostile_calls import HostileCalls

if TYPE_CHECKING:
    from tests.store.state_machine.database import Backup

LEASE_BASE_BITS: Final = 44  # a restore makes the leases void whose epoch is below the next multiple of 2^44
EPOCHS_PER_TIMELINE: Final = (
    1000  # in the store, the random steps of `lease_step` keep the epochs of two timelines apart
)


@dataclass
class _Saved:
    """A backup, and what the machine knew then."""

    backup: Backup
    known: tuple[Any, ...]
    uuids: dict[int, str]


class Restores(HostileCalls):
    """The operations of this module."""

    def __init__(self) -> None:
        super().__init__()
        self.saved: _Saved | None = None
        self.timelines = 1
        self.server_changes = 0

    def save(self) -> None:
        """Takes a backup."""
        self.check_server_changes()
        self.saved = _Saved(self.harness.save(), deepcopy(self._known()), dict(self.uuids))

    def forget(self, *, noticed: bool) -> None:
        """Puts the backup in place of the store. `noticed`: maintenance comes before any worker."""
        if self.saved is None:
            self.save()
            return
        self.end_of_transaction(commit=False)
        self.timelines += 1
        self.server_changes = self.saved.backup.server_changes + 1
        step = 1 + EPOCHS_PER_TIMELINE * self.timelines
        self.harness.restore(self.saved.backup, step)
        events, now, hours = self.model.events, self.model.now, self.ticks.hours
        self.model, self.ticks, self.backfills, self.dependencies = deepcopy(self.saved.known)
        self.model.base, self.model.lease_step = ((self.model.base >> LEASE_BASE_BITS) + 1) << LEASE_BASE_BITS, step
        self.model.events, self.model.now, self.ticks.hours = events, now, hours  # time goes on
        self.model.scanned = False
        for run in self.model.runs.values():
            run.locked = False
        self.uuids, self.before = dict(self.saved.uuids), self._statuses()
        self.old_plans.clear()  # a plan is enqueued over the connection that it was read over
        if noticed:
            self.check_server_changes()

    def check_server_changes(self) -> None:
        """Each restore that the store remembers is recorded once, as one after which commits may be missing."""
        self.harness.notice_server()
        query = "select count(*) from server_changes where kind = 'moved' and at_risk"
        assert self.harness.user.value(query) == self.server_changes

    def _known(self) -> tuple[Any, ...]:
        return self.model, self.ticks, self.backfills, self.dependencies
