"""Keeps the stored schedules equal to the JobSchedules during a term: by lists, and by changes between them."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from wakeboard.kube.client import NOT_FOUND, ApiError
from wakeboard_operator.tracing import span

if TYPE_CHECKING:
    from wakeboard.schedules.leader_api import LeaderStore
    from wakeboard_operator.reconciler import Reconciler
    from wakeboard_operator.replica import OperatorReplica

log = logging.getLogger("wakeboard.operator")

COALESCE_S: Final = 0.1  # changes within this time are synced together
MIN_RESYNC_S: Final = 1.0  # between two resyncs
RELIST_S: Final = 2.0  # after a list that failed
CONFIRMATION_POLL_S: Final = 1.0  # while a removal is pending


class ReconcileLoop:
    """The syncs of one term."""

    def __init__(self, replica: OperatorReplica, reconciler: Reconciler) -> None:
        self._replica, self._reconciler = replica, reconciler
        self._changes = replica.supervisor.changes

    async def run(self, store: LeaderStore) -> None:
        """Resyncs from a complete list at once, and when one is due; syncs changes as they come."""
        reconciler, changes = self._reconciler, self._changes
        resync_at = 0.0  # time.monotonic()
        while True:
            if time.monotonic() >= resync_at:
                changes.take()  # the list contains them
                changes.take_gap()
                self._record_deletions()
                done = await self._resync(store)
                resync_at = time.monotonic() + (self._resync_interval_s() if done else RELIST_S)
            is_pending = reconciler.pending_removal is not None
            received_at = await self._wait_for_change(resync_at - time.monotonic(), removal_is_pending=is_pending)
            batch = changes.take()
            self._record_deletions()
            needs_list = False
            if batch:
                with span("reconcile changes", {"wakeboard.schedules": len(batch)}):
                    needs_list = await reconciler.apply_changes(store, batch)
            if changes.take_gap() or needs_list:
                resync_at = min(resync_at, max(time.monotonic(), (reconciler.last_resync_at or 0.0) + MIN_RESYNC_S))
            if batch and received_at is not None:
                self._replica.metrics.sync_lag_s.set(time.monotonic() - received_at)
            if reconciler.pending_removal is not None and await store.is_removal_confirmed(self._replica.source):
                resync_at = time.monotonic()

    def _record_deletions(self) -> None:
        for uid in self._changes.take_deleted():
            self._reconciler.missing.record_deletion(uid, time.monotonic())

    def _resync_interval_s(self) -> float:
        early_s = self._reconciler.resync_in_s
        interval_s = self._replica.settings.reconcile_seconds
        return interval_s if early_s is None else min(interval_s, max(early_s, MIN_RESYNC_S))

    async def _wait_for_change(self, within_s: float, *, removal_is_pending: bool) -> float | None:
        """Returns when the watch delivered a change (time.monotonic()), or None if there was none `within_s`."""
        received_at = None
        with suppress(TimeoutError):
            wait_s = min(within_s, CONFIRMATION_POLL_S) if removal_is_pending else within_s
            async with asyncio.timeout(max(0.0, wait_s)):
                await self._changes.wait()
                received_at = time.monotonic()
                await asyncio.sleep(COALESCE_S)
        return received_at

    async def _resync(self, store: LeaderStore) -> bool:
        """Lists and syncs all JobSchedules. False: the list failed."""
        began, replica, reconciler = time.monotonic(), self._replica, self._reconciler
        listed_at = await store.now()
        try:
            listing = await replica.cluster.listed()
        except ApiError as error:
            problem = f"the API server does not list jobschedules: {error}"
            if replica.leadership.problem is None:
                log.warning("%s", problem)
            replica.leadership.problem = problem
            replica.metrics.api_up.set(0)
            replica.supervisor.list_failed()
            if error.status == NOT_FOUND:
                reconciler.missing.clear()
            return False
        with span("reconcile", {"wakeboard.schedules": len(listing.resources)}):
            report = await reconciler.resync(store, listing, listed_at)
        replica.supervisor.expect(listing.resources)  # starts the watch, so that it does not slow down the first sync
        if report.pending_removal:
            log.warning("%s", report.pending_removal)
        replica.leadership.problem = replica.supervisor.problem
        replica.metrics.api_up.set(1)
        replica.metrics.last_reconcile.set_to_current_time()
        replica.metrics.reconcile_s.set(time.monotonic() - began)
        return True
