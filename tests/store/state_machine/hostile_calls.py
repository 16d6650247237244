"""Calls that must change nothing, and an administrator's open transaction beside calls of workers.

The comparison after each operation shows whether anything changed. Beside an open transaction, a call for other rows
answers as without it, and before the shortest lock timeout of the functions for workers ends.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import psycopg

from tests.store.sql_clients import Lease, SqlClient
from tests.store.state_machine.machine import StoreMachine
from tests.store.state_machine.model import QUEUES, TYPES

WITHOUT_WAITING: Final = "1500ms"  # less than the lock timeouts of 2 s
EMPTY: Final = "'{}'"
_ENQUEUE: Final = (
    "select definitions, runs, skipped, replaced from enqueue_due_ticks("
    "array[%s], array[%s], array[%s::timestamptz], array[%s::timestamptz], array[%s::timestamptz], array[null],"
    " array[%s], array[%s::timestamptz], '{}', '{}', '{}', '{}', '{}')"
)


class HostileCalls(StoreMachine):
    """The operations of this module."""

    # -- an open transaction of an administrator -----------------------------------------------------------------------

    def report_beside_an_open_transaction(self, action: str, outcome: str, pick: int) -> None:
        """An administrator's call is rolled back, and meanwhile a worker reports a run that the call does not name."""
        chosen = self._lease(pick, by_other=False)
        others = [run.id for run in self.model.live() if chosen is None or run.id != chosen[1].id]
        if chosen is None or not others or self.open_transaction or self._names(action, chosen[1].id):
            return
        self.harness.notice_server()  # or a reap that is rolled back would record it
        self._open(action, others[pick % len(others)])
        worker, lease = chosen
        client = self.harness.workers[worker]
        client.sql(f"set statement_timeout = '{WITHOUT_WAITING}'")
        try:
            if outcome == "complete":
                assert set(client.complete(lease)) == self.model.complete(worker, [lease])
            elif outcome == "fail":
                assert set(client.fail(lease)) == self.model.fail(worker, [lease], "failed", at_once=False)
            elif outcome == "release":
                answer = self.model.release(worker, [lease], delayed=False, reason="worker_stopped")
                assert set(client.release(lease)) == answer
            else:
                assert client.renew(lease, lease_s=3600) == self.model.renew(worker, [lease])
        finally:
            self.harness.handler.sql("rollback")
            self.harness.restore_statement_timeout(client)

    def _names(self, action: str, number: int) -> bool:
        """Whether the call changes this run, too."""
        run = self.model.runs[number]
        return (
            bool(run.expired or self.model.is_void(run))
            if action == "reap"
            else action == "run_now" and run.definition is not None
        )

    def _open(self, action: str, run: int) -> None:
        admin = self.harness.handler
        admin.sql("begin")
        if action == "set_limit":
            admin.sql("select set_limit(key, 7) from unnest(array['k', 'l']) as key")
        elif action == "run_now":
            admin.sql("select run_now(id) from job_definitions where removed_at is null")
        elif action == "reap":
            admin.sql("select reap(0, 5000, true)")
        else:
            admin.sql(f"select {action}(array[%s])", run)

    # -- what must be refused ------------------------------------------------------------------------------------------

    def renew_an_older_epoch(self, pick: int) -> None:
        """A heartbeat that was sent before its worker got the run again says nothing of the newer lease."""
        held = [(worker, lease) for worker, lease in self.leases if self.model.lease(worker, lease) and lease.epoch > 1]
        if not held:
            return
        worker, lease = held[pick % len(held)]
        old = Lease(lease.id, lease.epoch - 1)
        query = "select id, answer, epoch from renew(%s, 3600, %s, %s, '{null}', '{null}') where id <> 0"
        answers = self.harness.workers[worker].sql(query, worker, [old.id], [old.epoch])
        assert [tuple(row) for row in answers] == [(old.id, "refused", old.epoch)]
        if worker in self.model.present:
            self.model.present[worker] = True

    def enqueue_a_forged_plan(self, pick: int, *, future: bool) -> None:
        """A worker enqueues a tick of the future, or claims to have read another cursor."""
        names = [name for name in sorted(self.ticks.by_name) if not self.ticks.by_name[name].spec.after]
        if not names:
            return
        definition = self.ticks.by_name[names[pick % len(names)]]
        query = "select generation, next_run_at from job_definitions where id = %s and next_run_at is not null"
        rows = self.harness.user.sql(query, definition.id)
        if not rows:
            return
        generation, cursor = rows[0]
        tick = self.harness.user.value("select now()") + timedelta(days=1) if future else cursor - timedelta(hours=3)
        read = cursor if future else tick
        values: tuple[Any, ...] = (
            definition.id,
            generation,
            read,
            tick + timedelta(hours=1),
            tick,
            definition.id,
            tick,
        )
        if future:
            assert "a tick is in the future" in _refusal(self.harness.workers[1], _ENQUEUE, *values)
        else:
            assert tuple(self.harness.workers[1].sql(_ENQUEUE, *values)[0]) == (0, 0, 0, 0)

    def call_in_another_isolation_level(self, name: str, level: str) -> None:
        """Functions that need to see what others have committed meanwhile refuse one snapshot."""
        calls: dict[str, tuple[str, tuple[Any, ...]]] = {
            "run_now": ("select run_now(1)", ()),
            "claim_limited": ("select claim_limited(1, 60, %s, %s, '{k}', 10)", (list(QUEUES[1]), list(TYPES[1]))),
            "enqueue_due_ticks": (f"select enqueue_due_ticks({', '.join([EMPTY] * 13)})", ()),
        }
        query, values = calls.get(name, (f"select {name}(array[%s])", (max(self.model.runs, default=1),)))
        client = self.harness.workers[1]
        client.sql(f"begin isolation level {level}")
        try:
            assert "must run in READ COMMITTED" in _refusal(client, query, *values)
        finally:
            client.sql("rollback")


def _refusal(client: SqlClient, query: str, *values: Any) -> str:
    try:
        client.sql(query, *values)
    except psycopg.Error as error:
        return str(error)
    return "accepted"
