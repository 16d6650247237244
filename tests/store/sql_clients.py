"""The callers of SQL functions in these tests: workers, administrators and applications, each with its own connection.

The database's clock cannot be moved, so a client changes what is compared with it: `let_lapse`, `make_due`.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from psycopg.rows import namedtuple_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

TIMEOUT_S = 30.0  # until an event that does not come is a failure
PRIORITIES = (5, 4, 3, 2, 1)


class Lease(NamedTuple):
    """What a worker names when it speaks about a run."""

    id: int
    epoch: int


class SqlClient:
    """A client of the SQL API. `worker_id` is its id as a worker; `sql` and `value` run any other query."""

    def __init__(self, dsn: str, worker_id: int = 0) -> None:
        self.dsn, self.worker_id = dsn, worker_id
        self.conn = psycopg.connect(dsn, autocommit=True, options="-c search_path=wakeboard")
        self.pid = self.conn.info.backend_pid

    def close(self) -> None:
        self.conn.close()

    def sql(self, query: str, *values: object) -> list[Any]:
        cursor = self.conn.cursor(row_factory=namedtuple_row)
        cursor.execute(query.encode(), values or None)
        return cursor.fetchall() if cursor.description else []

    def value(self, query: str, *values: object) -> Any:
        """The first column of the first row; None when there is none."""
        rows = self.sql(query, *values)
        return rows[0][0] if rows else None

    def column(self, query: str, *values: object) -> list[Any]:
        return [row[0] for row in self.sql(query, *values)]

    # -- applications

    def enqueue(self, job_type: str = "ping", payload: object = None, **named: Any) -> int:
        """Enqueues a run, due now; its id."""
        arguments = "".join(f", {name} => %s" for name in named)
        query = f"select id from enqueue(%s, %s::text::jsonb{arguments})"
        return self.value(query, job_type, json.dumps(payload or {}), *named.values())

    def define(self, name: str = "report", policy: str = "Allow", **columns: object) -> int:
        """Inserts a schedule of the job type ping, which runs on demand unless `columns` say more; its id."""
        row = {"source": "k8s:one", "namespace": "billing", "name": name, "spec_hash": "-", "job_type": "ping"}
        given = {**row, "concurrency_policy": policy, **columns}
        query = (
            f"insert into job_definitions ({', '.join(given)}) values ({', '.join(['%s'] * len(given))}) returning id"
        )
        return self.value(query, *given.values())

    # -- workers

    def register(self, *, lease_s: int = 60, name: str = "", pool: str = "default", **named: object) -> bool:
        query = (
            "select register_worker(%s, %s, %s, 'here', '1.0', '{default}', 10, %s, '{ping}'"
            + "".join(f", {argument} => %s" for argument in named)
            + ")"
        )
        return self.value(query, self.worker_id, name or f"worker {self.worker_id}", pool, lease_s, *named.values())

    def fetch(self, count: int = 100) -> list[Lease]:
        """Leases due runs, as a worker does."""
        query = "select id, lease_epoch from fetch_runs(%s, 60, '{default}', '{ping}', %s) where id is not null"
        return self._leases(query, self.worker_id, count)

    def claim(  # one keyword for each thing that a story changes
        self,
        count: int = 100,
        *,
        types: Sequence[str] = ("ping",),
        queues: Sequence[str] = ("default",),
        lease_s: int = 60,
        behind: tuple[str, int] = ("-infinity", 0),
        scan_limit: int | None = 2000,
        max_timeout_s: int = 2_678_400,
    ) -> list[Lease]:
        """Leases due runs, most urgent first."""
        places = 5 * len(queues)
        return self._leases(
            "select id, lease_epoch"
            "  from lock_due_runs(%s, %s, %s::timestamptz[], %s::bigint[], %s, %s, %s, %s) as due"
            " cross join lateral lease_runs(%s, %s, due.ids, due.definitions)",
            *(list(queues), list(range(1, places + 1)), [behind[0]] * places, [behind[1]] * places),
            *(list(types), count, scan_limit, max_timeout_s),
            *(self.worker_id, lease_s),
        )

    def claim_oldest(  # as claim
        self,
        count: int = 100,
        *,
        types: Sequence[str] = ("ping",),
        queue: str = "default",
        behind: tuple[str, int] = ("-infinity", 0),
        scan_limit: int = 2000,
    ) -> list[Lease]:
        """Leases due runs, those that have been due for longest."""
        return self._leases(
            "select id, lease_epoch from claim_oldest(%s, 60, %s, %s::timestamptz[], %s::bigint[], %s, %s, %s)",
            *(self.worker_id, queue, [behind[0]] * 5, [behind[1]] * 5, list(types), count, scan_limit),
        )

    def claim_limited(
        self,
        *keys: str,
        count: int = 100,
        types: Sequence[str] = ("ping",),
        queues: Sequence[str] = ("default",),
        lease_s: int = 60,
        by_chance: bool = False,
    ) -> list[Lease]:
        """Leases due runs behind these limit keys; behind all that have waiting runs when none is named.

        By priority, unless `by_chance`: then one claim in twenty serves the oldest run first, as in production.
        """
        if not by_chance:
            self.sql("select setseed(0.5)")
        wanted = list(keys) or self.column("select due_limit_keys(%s)", list(queues))
        query = "select id, lease_epoch from claim_limited(%s, %s, %s, %s, %s, %s)"
        return self._leases(query, self.worker_id, lease_s, list(queues), list(types), wanted, count)

    def claim_quarantined(self, *, types: Sequence[str] = ("ping",), lease_s: int = 60) -> list[Lease]:
        query = "select id, lease_epoch from claim_quarantined(%s, %s, '{default}', %s)"
        return self._leases(query, self.worker_id, lease_s, list(types))

    def _leases(self, query: str, *values: object) -> list[Lease]:
        return [Lease(*row) for row in self.sql(query, *values)]

    def claims(self, run: int, **named: Any) -> Lease:
        """Leases what is due, among which is `run`; its lease."""
        found = {lease.id: lease for lease in [*self.claim(**named), *self.claim_limited()]}
        assert run in found, f"run {run} could not be claimed"
        return found[run]

    def renew(
        self, *leases: Lease, lease_s: int = 60, age_s: float | None = None, progress: float | None = None
    ) -> dict[int, str]:
        """A heartbeat. Returns what needs attention, by run, without the finding that this client is not registered."""
        query = "select id, answer from renew(%s, %s, %s, %s, %s::real[], %s::real[])"
        ids, epochs = _columns(leases)
        many = len(leases)
        answers = self._pairs(query, self.worker_id, lease_s, ids, epochs, [age_s] * many, [progress] * many)
        return {run: answer for run, answer in answers if answer != "unregistered"}

    def complete(self, *leases: Lease, results: object = None, ages: tuple[float, float] | None = None) -> list[int]:
        """Completes runs; those that were refused. `ages`: seconds since the handlers began and ended."""
        ids, epochs = _columns(leases)
        given = None if results is None else json.dumps(results)
        timed = (ids, *_repeated(ages, len(leases))) if ages else (None, None, None)
        return self.column(
            "select complete(%s, %s, %s, %s::text::jsonb, %s::bigint[], %s::real[], %s::real[])",
            *(self.worker_id, ids, epochs, given, *timed),
        )

    def fail(
        self,
        *leases: Lease,
        outcome: str = "failed",
        error_type: str = "ValueError",
        error: str = "boom",
        delay_s: float | None = None,
        ages: tuple[float, float] | None = None,
    ) -> list[int]:
        """These attempts went wrong; those that were refused."""
        query = "select fail(%s, %s, %s, %s, %s, %s, %s, %s::real[], %s::real[], %s::real[])"
        many = len(leases)
        rest = [outcome] * many, [error_type] * many, [error] * many, ["stack"] * many, [delay_s] * many
        return self.column(query, self.worker_id, *_columns(leases), *rest, *_repeated(ages, many))

    def release(
        self,
        *leases: Lease,
        delay_s: float = 0.0,
        reason: str = "worker_stopped",
        ages: tuple[float, float] | None = None,
    ) -> list[int]:
        """Gives runs back; those that were refused."""
        many, counted = len(leases), reason in {"worker_stopped", "disconnected"}
        query = "select release(%s, %s, %s, %s::real[], %s, %s, %s::real[], %s::real[])"
        rest = [delay_s] * many, [counted] * many, [reason] * many
        return self.column(query, self.worker_id, *_columns(leases), *rest, *_repeated(ages, many))

    def step(self, lease: Lease, name: str, result: object = ...) -> tuple[bool, Any]:
        given = None if result is ... else json.dumps(result)
        query = "select done, stored from step(%s, %s, %s, %s, %s::text::jsonb)"
        done, stored = self.sql(query, self.worker_id, *lease, name, given)[0]
        return done, stored

    def fail_step(self, lease: Lease, name: str, error: str) -> None:
        self.sql("select * from step(%s, %s, %s, %s, error => %s)", self.worker_id, *lease, name, error)

    def effect(self, lease: Lease, key: str, *, done: bool = False) -> str:
        return self.value("select effect(%s, %s, %s, %s, %s)", self.worker_id, *lease, key, done)

    def effect_forever(self, lease: Lease, key: str, *, done: bool = False) -> str:
        return self.value("select state from effect_forever(%s, %s, %s, %s, %s)", self.worker_id, *lease, key, done)

    def once(self, lease: Lease, key: str, *, forever: bool = False) -> bool:
        uuid = (
            "'00000000-0000-0000-0000-000000000000'"
            if forever
            else f"(select uuid from all_runs where id = {lease.id})"
        )
        return self.value(f"select once(%s, %s, {uuid}, %s, %s)", self.worker_id, *lease, key)

    # -- maintenance

    def reap(self, *, always: bool = True) -> tuple[int, int, int, int]:
        """Reaps all leases: how many crashed, timed out, died and were cancelled."""
        total, after = (0, 0, 0, 0), 0
        while True:
            next_id, *found = self.sql("select * from reap(%s, always => %s)", after, always)[0]
            total = tuple(map(sum, zip(total, found, strict=True)))
            if next_id is None:
                return total[0], total[1], total[2], total[3]
            after = next_id

    # -- administrators: the answers by run

    def cancel(self, *runs: int) -> dict[int, str]:
        return dict(self._pairs("select id, answer from cancel(%s::bigint[])", list(runs)))

    def retry(self, *runs: int) -> dict[int, str]:
        return dict(self._pairs("select id, answer from retry(%s::bigint[])", list(runs)))

    def discard(self, *runs: int) -> dict[int, str]:
        return dict(self._pairs("select id, answer from discard(%s::bigint[])", list(runs)))

    def revoke(self, *runs: int) -> dict[int, str]:
        return dict(self._pairs("select id, answer from revoke(%s::bigint[])", list(runs)))

    def replay(self, run: int) -> tuple[str, int | None]:
        _, answer, new = self.sql("select * from replay(%s::bigint[])", [run])[0]
        return answer, new

    def _pairs(self, query: str, *values: object) -> Iterable[tuple[int, str]]:
        return [(row[0], row[1]) for row in self.sql(query, *values)]

    # -- looking

    def run(self, run: int) -> Any:
        """The row of a live run."""
        rows = self.sql("select * from job_runs where id = %s", run)
        assert rows, f"run {run} is not live"
        return rows[0]

    def past(self, run: int) -> Any:
        """The row of a finished run."""
        rows = self.sql("select * from job_run_history where id = %s", run)
        assert len(rows) == 1, f"run {run} stands {len(rows)} times in the history"
        return rows[0]

    def status(self, run: int) -> str | None:
        """Wherever it is; None: there is no such run."""
        return self.value("select status::text from all_runs where id = %s", run)

    def attempts(self, run: int) -> list[str]:
        """How its attempts ended that did not succeed, oldest first."""
        return self.column("select outcome from job_attempts where run_id = %s order by lease_epoch", run)

    # -- time passes

    def let_lapse(self, *runs: int) -> None:
        """Their leases lapsed a second ago, and their worker has been silent for long."""
        self.sql("update job_runs set locked_until = now() - interval '1 s' where id = any (%s)", list(runs))
        self.sql(
            "delete from workers where worker_id in (select locked_by from job_runs where id = any (%s))", list(runs)
        )

    def make_due(self, *runs: int) -> None:
        self.sql("update job_runs set run_at = now() where id = any (%s)", list(runs))

    def crashed(self, run: int, times: int = 1) -> None:
        """As many workers died while they ran it."""
        self.sql("update job_runs set crash_count = %s where id = %s", times, run)

    # -- other connections

    def wait_until_a_session_waits(self, sessions: int = 1) -> None:
        """Waits until so many sessions of this database wait for a lock."""
        query = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        end = time.monotonic() + TIMEOUT_S
        while self.value(query) < sessions:
            assert time.monotonic() < end, "no session waited for a lock"

    def wait_until_blocked(self, other: SqlClient, done: Callable[[], bool] = lambda: False) -> bool:
        """Waits until `other` waits for a lock (True), or has ended what it does (False)."""
        end = time.monotonic() + TIMEOUT_S
        while time.monotonic() < end:
            if done():
                return False
            if self.value("select cardinality(pg_blocking_pids(%s)) > 0", other.pid):
                return True
        raise AssertionError("it neither waited for a lock nor ended")


def _repeated(ages: tuple[float, float] | None, many: int) -> tuple[list[float] | None, list[float] | None]:
    return ([ages[0]] * many, [ages[1]] * many) if ages else (None, None)


def _columns(leases: Sequence[Lease]) -> tuple[list[int], list[int]]:
    return [lease.id for lease in leases], [lease.epoch for lease in leases]
