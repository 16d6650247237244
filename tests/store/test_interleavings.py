"""For each two operations on one run: called concurrently they end as in sequence, or one of them skips the run.

One client calls an operation for a run in some status and keeps its transaction open. A second client calls another
operation meanwhile. Then the first transaction commits or rolls back.
"""

from __future__ import annotations

from concurrent.futures import wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pytest

from tests.store.sql_clients import Lease, SqlClient

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

LEASED_BY: Final = 71  # the worker that has the lease, if there is one
OTHER_WORKER: Final = 72  # a worker that claims
MOST_END_WITHIN_S: Final = 0.003

SETUP: Final = {
    "queued": "",
    "limited": "update job_runs set limit_key = 'one'",
    "late": "update job_runs set start_before = now() - interval '1 s'",
    "quarantined": "update job_runs set crash_count = 2",
    "failed": "update job_runs set status = 'failed', attempts = 1, lease_epoch = 1, started_at = now()",
    "dead": "update job_runs set status = 'dead', dead_at = now(), attempts = 1, lease_epoch = 1, started_at = now()",
    "running": (
        "update job_runs set status = 'running', attempts = 1, lease_epoch = 1, locked_by = 71, started_at = now(),"
        " locked_until = now() + interval '1 min'"
    ),
}
SETUP["limited and running"] = f"{SETUP['limited']}; {SETUP['running']}, holds_slot = true"
SETUP["to be cancelled"] = f"{SETUP['running']}, cancel_requested_at = now()"
SETUP["expired"] = f"{SETUP['running']}; update job_runs set locked_until = now() - interval '1 s'"
SETUP["expired a third time"] = f"{SETUP['expired']}, crash_count = 2"

_EMPTY: Final = """
delete from job_runs; delete from job_run_history; delete from job_attempts; delete from job_steps;
delete from job_effects; insert into job_limits (key) values ('one') on conflict do nothing
"""
_SNAPSHOT: Final = """
select coalesce(live::text, 'none') || ' | ' || coalesce(past::text, 'none')
       || ' | ' || array(select row(lease_epoch, outcome) from job_attempts order by 1)::text
       || ' | ' || array(select row(name, finished_at is not null) from job_steps order by 1)::text
       || ' | ' || array(select row(key, lease_epoch, finished_at is not null) from job_effects order by 1)::text
  from (select) as nothing
  left join (select status, locked_by, lease_epoch, attempts, crash_count, release_count, holds_slot,
                    cancel_requested_at is not null as asked, dead_at is not null as died, error_type
               from job_runs where id = %(run)s) as live on true
  left join (select status, locked_by, lease_epoch, attempts, reason
               from job_run_history where id = %(run)s) as past on true
"""


def as_worker(worker_id: int, client: SqlClient) -> SqlClient:
    client.worker_id = worker_id
    return client


OPERATIONS: Final[dict[str, Callable[[SqlClient, Lease], Any]]] = {
    "claim": lambda client, _: as_worker(OTHER_WORKER, client).claim(),
    "claim_limited": lambda client, _: as_worker(OTHER_WORKER, client).claim_limited("one"),
    "claim_quarantined": lambda client, _: as_worker(OTHER_WORKER, client).claim_quarantined(),
    "renew": lambda client, lease: as_worker(LEASED_BY, client).renew(lease),
    "complete": lambda client, lease: as_worker(LEASED_BY, client).complete(lease),
    "fail": lambda client, lease: as_worker(LEASED_BY, client).fail(lease),
    "release": lambda client, lease: as_worker(LEASED_BY, client).release(lease),
    "once": lambda client, lease: as_worker(LEASED_BY, client).once(lease, "charge"),
    "effect": lambda client, lease: as_worker(LEASED_BY, client).effect(lease, "mail"),
    "step": lambda client, lease: as_worker(LEASED_BY, client).step(lease, "Render", 1),
    "reap": lambda client, lease: client.sql("select crashed, timed_out, dead, cancelled from reap(%s)", lease.id - 1),
    "skip_past_deadline": lambda client, _: client.value("select skip_past_deadline()"),
    "cancel": lambda client, lease: client.cancel(lease.id),
    "retry": lambda client, lease: client.retry(lease.id),
    "discard": lambda client, lease: client.discard(lease.id),
}
NEVER_WAIT: Final = {
    *("claim", "claim_limited", "claim_quarantined", "renew", "reap", "skip_past_deadline"),
    *("fail", "release"),
}
SKIP: Final = {*NEVER_WAIT, "effect", "step"}  # these wait for the same key in another transaction, not for the run
SHARE: Final = {"once", "effect", "step"}  # they share the run's lock with each other and with those below
COMPATIBLE_WITH_SHARE: Final = {"renew", "cancel"}


def may_overlap(operation: str, other: str) -> bool:
    """Whether both operations may act on the run at once."""
    return operation in SHARE or (operation in COMPATIBLE_WITH_SHARE and other in SHARE)


@dataclass(frozen=True)
class Outcome:
    """The results of the operations, the run afterwards, and whether the second client waited."""

    first: Any
    second: Any
    after: str
    waited: bool = False


IN_SEQUENCE: Final[dict[tuple[int | str, ...], Outcome]] = {}  # by version of the server, status and operations


class Interleaving:
    """Calls operations on one store. Both clients and the observer have their own connections."""

    def __init__(self, open_client: Callable[[int], SqlClient], meanwhile: ThreadPoolExecutor) -> None:
        self.first, self.second, self.observer = (open_client(0) for _ in range(3))
        self._meanwhile = meanwhile
        self._version = self.observer.conn.info.server_version
        self.observer.sql("alter sequence job_runs_id_seq restart 1000000000")  # no other number equals an id
        self.observer.sql("create or replace function lease_step() returns bigint language sql as 'select 1::bigint'")

    def _set(self, status: str) -> Lease:
        self.observer.sql(_EMPTY)
        run = self.observer.enqueue()
        if SETUP[status]:
            self.observer.sql(SETUP[status])
        return Lease(run, self.observer.value("select lease_epoch from job_runs"))

    def _snapshot(self, lease: Lease) -> str:
        rows = "select (select count(*) from job_runs) + (select count(*) from job_run_history)"
        assert self.observer.value(rows) == 1, "the run is not in exactly one table"
        return (
            self.observer.conn.execute(_SNAPSHOT.encode(), {"run": lease.id})
            .fetchall()[0][0]
            .replace(str(lease.id), "N")
        )

    def in_sequence(self, status: str, *operations: str) -> Outcome:
        """The operations in sequence, without concurrency."""
        if (self._version, status, *operations) not in IN_SEQUENCE:
            lease = self._set(status)
            answers = [_call(self.first, operation, lease) for operation in operations]
            answers += [None] * (2 - len(answers))
            outcome = Outcome(answers[0], answers[1], self._snapshot(lease))
            IN_SEQUENCE[self._version, status, *operations] = outcome
        return IN_SEQUENCE[self._version, status, *operations]

    def concurrently(self, status: str, operation: str, meanwhile: str, *, commit: bool) -> Outcome:
        """The first operation in a transaction, the second while it is open; then the transaction ends."""
        lease = self._set(status)
        with self.first.conn.transaction(force_rollback=not commit):
            first = _call(self.first, operation, lease)
            running = self._meanwhile.submit(_call, self.second, meanwhile, lease)
            wait([running], MOST_END_WITHIN_S)  # a poll of the locks costs more than most operations
            waited = self.observer.wait_until_blocked(self.second, running.done)
        return Outcome(first, running.result(), self._snapshot(lease), waited)


def _call(client: SqlClient, operation: str, lease: Lease) -> Any:
    """The result of an operation, without the run's id."""
    try:
        with client.conn.transaction():
            answer = OPERATIONS[operation](client, lease)
    except psycopg.Error as error:
        if error.sqlstate not in {"WB001", "55P03"}:
            raise
        return "lost" if error.sqlstate == "WB001" else "busy"
    return str(answer).replace(str(lease.id), "N")


@pytest.fixture
def interleaving(open_client: Callable[[int], SqlClient], meanwhile: ThreadPoolExecutor) -> Interleaving:
    return Interleaving(open_client, meanwhile)


def touched(interleaving: Interleaving, operation: str) -> list[str]:
    """The statuses in which the operation changes the run."""
    return [
        status
        for status in SETUP
        if interleaving.in_sequence(status, operation).after != interleaving.in_sequence(status).after
        or (operation == "renew" and "running" in status)
    ]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_and_a_concurrent_one_end_as_in_sequence(interleaving: Interleaving, operation: str) -> None:
    statuses = touched(interleaving, operation)
    assert statuses
    for status in statuses:
        for other in OPERATIONS:
            case = f"{status} run: {operation}, and concurrently {other}"
            result = interleaving.concurrently(status, operation, other, commit=True)
            then, before, alone = (
                interleaving.in_sequence(status, operation, other),
                interleaving.in_sequence(status, other, operation),
                interleaving.in_sequence(status, operation),
            )
            assert not (result.waited and other in NEVER_WAIT), case
            assert result.first == alone.first, case
            if result.waited:
                assert (result.second, result.after) == (then.second, then.after), case
            else:
                assert result.after in {then.after, before.after, alone.after}, case
            if not may_overlap(operation, other) and result.after != alone.after:
                assert result.waited, f"{case}: it did not wait, and changed the run"


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_that_is_rolled_back_leaves_the_other_as_if_alone(
    interleaving: Interleaving, operation: str
) -> None:
    for status in touched(interleaving, operation):
        for other in OPERATIONS:
            case = f"{status} run: {operation}, rolled back, and concurrently {other}"
            result = interleaving.concurrently(status, operation, other, commit=False)
            alone, untouched = interleaving.in_sequence(status, other), interleaving.in_sequence(status)
            assert not (result.waited and other in NEVER_WAIT), case
            if other in SKIP and not result.waited:
                assert result.after in {alone.after, untouched.after}, case
            else:
                assert (result.second, result.after) == (alone.first, alone.after), case
