"""SQL functions for workers, typed: register, claim, renew leases, report outcomes.

This is the hot path, so rows keep their binary form until a caller reads them: see `ClaimedRow`. Arrays are sent as
text ('{1,2,3}'). Raises WakeboardError (see errors.py). Every call may be repeated after a lost reply, except a claim:
the runs that it leased are queued again when their leases expire.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import psycopg
from psycopg.types.json import Jsonb
from psycopg.types.numeric import Int8BinaryLoader
from psycopg.types.string import ByteaBinaryLoader

from wakeboard.engine.run import ClaimedRow, KnownEffect
from wakeboard.errors import LeaseLost, Locked
from wakeboard.store.array_texts import number_array, text_array
from wakeboard.store.statements import call, call_blocking, execute, translating
from wakeboard.text.redact import redact
from wakeboard.text.sanitize import one_line, printable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from wakeboard.engine.run import Progress, Reported

MAX_MESSAGE: Final = 200  # characters of a message with the progress
LONGEST_TIMEOUT_S: Final = 2_678_400
MAX_LIMIT_PAUSE_S: Final = 86_400.0
PAUSE_LIMITS_S: Final = 1.0  # how long the pauses of limits delay the outcomes of a batch

NO_TIMES: Final[Mapping[int, Times]] = {}

# The reasons of a release.
WORKER_STOPPED: Final = "worker_stopped"  # while the handler ran
DISCONNECTED: Final = "disconnected"  # the database could not be reached
SNOOZED: Final = "snoozed"  # the handler requested a later run
NOT_STARTED: Final = "not_started"  # no handler has started

AfterClaim: TypeAlias = "Callable[[WorkerStore, list[ClaimedRow]], Awaitable[None]]"


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker process: a row of `workers`. `worker_id`: a random number other than 0, new in every process.

    `pod_uid`: of its pod; empty outside of Kubernetes. `offers` returns what runs of built-in job types may name, by
    job type (views/rules/offers.py). It is asked with each registration.
    """

    worker_id: int
    name: str
    pool: str
    host: str
    version: str
    queues: Sequence[str]
    capacity: int
    lease_s: int
    max_timeout_s: int = LONGEST_TIMEOUT_S
    max_workers: int | None = None
    pod_uid: str = ""
    offers: Callable[[], Awaitable[Mapping[str, Sequence[str]]]] | None = None


class Times(NamedTuple):
    """When a handler began and ended, by `time.monotonic` of this process.

    The database's clock decides what is stored: it subtracts how long ago that was from the time of the report.
    """

    started: float
    ended: float


class Failure(NamedTuple):
    """A failed attempt. `outcome`: failed, timed_out or discarded; `delay_s` None: the run's own backoff.

    `pauses_limit`: for `delay_s`, no other run with the run's limit key starts. `cancelled`: an administrator asked the
    handler to stop, so the store records that and no failure.
    """

    id: int
    epoch: int
    outcome: str
    error_type: str
    error: str
    stack: str = ""
    delay_s: float | None = None
    pauses_limit: bool = False
    cancelled: bool = False
    times: Times | None = None


class Release(NamedTuple):
    """A run to release. `reason` WORKER_STOPPED or DISCONNECTED is counted: from the fifth on it costs the attempt.

    `reported`: what its handler reported last.
    """

    id: int
    epoch: int
    delay_s: float = 0.0
    reason: str = "worker_stopped"
    times: Times | None = None
    reported: Reported | None = None

    @property
    def counted(self) -> bool:
        """Whether the handler had started and was stopped before it ended."""
        return self.reason in (WORKER_STOPPED, DISCONNECTED)


class Renewal(NamedTuple):
    """A lease to renew: seconds since its handler started (None: not yet), and the progress that it reported."""

    id: int
    epoch: int
    age_s: float | None = None
    reported: Reported | None = None


class Attention(NamedTuple):
    """A lease that needs attention: 'cancel' (requested), 'busy' (try again soon) or 'refused' (the lease is lost).

    With id 0, 'unregistered': the worker has no row.
    """

    id: int
    answer: str
    epoch: int


class FetchAnswer(NamedTuple):
    """What a worker learns besides the claimed runs; see `fetch_runs`.

    `state`: for the next fetch. `again`: fetch as soon as a slot is free. Otherwise fetch when notified, in `due_s`
    seconds (None: nothing is announced), in `retry_s` seconds (None: no run waits for a slot of its limit), and if
    `waits`, when one of the worker's runs has ended. The first `limited` runs have a limit key. `maintain`: the
    maintenance tasks that may have work (None: unknown).
    """

    state: str
    limited: int = 0
    maintain: Sequence[str] | None = None
    again: bool = False
    waits: bool = False
    due_s: float | None = None
    retry_s: float | None = None


class EarlierAttempt(NamedTuple):
    """An attempt that did not succeed. `outcome`: see engine/attempt_outcomes.py."""

    epoch: int
    attempt: int
    outcome: str
    started_at: datetime
    ended_at: datetime


class TraceContext(NamedTuple):
    """The trace context of a run's enqueue (None: it had none), and the latest earlier attempts, oldest first."""

    run_id: int
    traceparent: str | None
    tracestate: str | None
    earlier: list[EarlierAttempt]


_FETCH: Final = (
    "select * from wakeboard.fetch_runs("
    "%s, %s, %s::pg_catalog.text[], %s::pg_catalog.text[], %s, %s, %s, %s, %s::pg_catalog.text[], %s, %s)"
)
_COMPLETE: Final = (
    "select wakeboard.complete("
    "%s, %s::bigint[], %s::bigint[], %s::pg_catalog.text::pg_catalog.jsonb, %s::bigint[], %s::real[], %s::real[])"
)
_RENEW: Final = (
    "select id, answer, epoch from wakeboard.renew("
    "%s, %s, %s::bigint[], %s::bigint[], %s::real[], %s::real[], %s::pg_catalog.text[],"
    " %s::pg_catalog.text::pg_catalog.jsonb)"
)


_RELEASE: Final = (
    "select wakeboard.release("
    "%s, %s::bigint[], %s::bigint[], %s::real[], %s::boolean[], %s::pg_catalog.text[], %s::real[], %s::real[])"
)


class WorkerStore:
    """The SQL functions of one worker, over one autocommit connection. Claims share a cursor: one at a time.

    `after_claim` is called with the rows of each claim, before the claim returns.
    """

    def __init__(
        self, conn: psycopg.AsyncConnection[Any], worker: Worker, after_claim: AfterClaim | None = None
    ) -> None:
        self.conn = conn
        self.worker = worker
        self._after_claim = after_claim
        self.queues = text_array(worker.queues)
        self._claims = conn.cursor(binary=True)
        self._claims.adapters.register_loader("timestamptz", Int8BinaryLoader)
        self._claims.adapters.register_loader("jsonb", ByteaBinaryLoader)
        self._claims.adapters.register_loader("uuid", ByteaBinaryLoader)

    async def register_worker(self, job_types: Sequence[str], *, again: bool = False) -> bool:
        """Registers the worker and its job types. False: the pool has `max_workers` already; exit.

        `again`: the limit `max_workers` does not apply.
        """
        me = self.worker
        offers: Mapping[str, Sequence[str]] = await me.offers() if me.offers else {}
        return await self._value(
            "select wakeboard.register_worker(%s, %s, %s, %s, %s, %s::pg_catalog.text[], %s, %s,"
            " %s::pg_catalog.text[], %s, %s, %s)",
            *(me.worker_id, me.name, me.pool, me.host, me.version, self.queues, me.capacity, me.lease_s),
            *(text_array(job_types), None if again else me.max_workers, me.pod_uid, Jsonb(offers)),
        )

    async def deregister_worker(self) -> None:
        """Deletes the worker's row."""
        await self._rows("select wakeboard.deregister_worker(%s)", self.worker.worker_id)

    # -- claims --------------------------------------------------------------------------------------------------------

    async def fetch(  # one argument for each of the function's
        self,
        job_types: str,
        count: int,
        state: str | None = None,
        *,
        alone: bool = False,
        limited_count: int | None = None,
        all_types: str | None = None,
        within_s: float = 60,
    ) -> tuple[list[ClaimedRow], FetchAnswer]:
        """Leases up to `count` runs of these job types (a text_array), and says when to fetch again; see `fetch_runs`.

        `state`: of the previous answer; None: the worker has read nothing yet.
        """
        me = self.worker
        who, asked = (me.worker_id, me.lease_s, self.queues, job_types), (count, state, alone, limited_count)
        ahead = all_types, within_s, me.max_timeout_s
        *found, last = await call(self.conn, _FETCH, *who, *asked, *ahead, cursor=self._claims)
        rows = list(map(ClaimedRow._make, found))
        if self._after_claim is not None:
            await self._after_claim(self, rows)
        return rows, FetchAnswer(**json.loads(ClaimedRow._make(last).payload[1:]))

    # -- for OpenTelemetry ---------------------------------------------------------------------------------------------

    async def trace_contexts(self, ids: Sequence[int]) -> list[TraceContext]:
        """The trace contexts and earlier attempts of those runs that have any."""
        query = (
            "select run_id, traceparent, tracestate, epochs, attempts, outcomes, started_ats, ended_ats"
            " from wakeboard.trace_contexts(%s::bigint[])"
        )
        return [
            TraceContext(run_id, parent, state, [EarlierAttempt(*each) for each in zip(*made, strict=True)])
            for run_id, parent, state, *columns in await self._rows(query, number_array(ids))
            for made in [columns if columns[0] else []]  # null: the run had no earlier attempt
        ]

    # -- outcomes (each id once; each returns the ids that were not accepted; `still_leased`: locked runs) -------------

    async def complete(
        self,
        ids: Sequence[int],
        epochs: Sequence[int],
        results: str | None = None,
        times: Mapping[int, Times] = NO_TIMES,
    ) -> list[int]:
        """Reports runs as succeeded. `results`: a JSON object {"<run id>": result, …}.

        `times` of those runs whose handler took a measurable time; the others ended a moment ago.
        """
        values = number_array(ids), number_array(epochs), results, number_array(list(times)), *_ages(times.values())
        return await self._report(_COMPLETE, self.worker.worker_id, *values)

    async def fail(self, failures: Sequence[Failure]) -> list[int]:
        """Reports failed attempts: each run is retried, or dead.

        An attempt that pauses a limit is not accepted while another transaction has locked that limit.
        """
        locked = await self._pause_limits([failure for failure in failures if failure.pauses_limit])
        reported = [failure for failure in failures if failure.id not in locked]
        if not reported:
            return list(locked)
        *columns, _, _, times = [list(column) for column in zip(*reported, strict=True)]
        return list(locked) + await self._report(
            "select wakeboard.fail(%s, %s::bigint[], %s::bigint[], %s::pg_catalog.text[], %s::pg_catalog.text[],"
            " %s::pg_catalog.text[], %s::pg_catalog.text[], %s::real[], %s::real[], %s::real[])",
            *(self.worker.worker_id, *columns, *_ages(times)),
        )

    async def _pause_limits(self, failures: Sequence[Failure]) -> set[int]:
        """Pauses the limits of these runs, as long as their leases are held. Returns the runs whose limit is locked.

        After a second, the limits that are left count as locked: they delay no other outcome.
        """
        query = "select wakeboard.pause_limit(%s, %s, %s, %s)"
        locked, until = set[int](), time.monotonic() + PAUSE_LIMITS_S
        for failure in failures:
            seconds = min(failure.delay_s or 0.0, MAX_LIMIT_PAUSE_S)
            try:
                if time.monotonic() < until:
                    await self._rows(query, self.worker.worker_id, failure.id, failure.epoch, seconds)
                else:
                    locked.add(failure.id)
            except Locked:
                locked.add(failure.id)
            except LeaseLost:  # its outcome is not accepted
                pass
        return locked

    async def release(self, releases: Sequence[Release]) -> list[int]:
        """Puts runs back into their queue, and gives their attempt back. Their progress is kept."""
        if reported := [release for release in releases if release.reported]:
            await self._renew_progress(reported)
        return await self._report(_RELEASE, *_release_values(self.worker, releases))

    async def _renew_progress(self, releases: Sequence[Release]) -> None:
        """Stores the progress that no heartbeat has sent. A run that is locked keeps the progress it had."""
        now = time.monotonic()
        held = [
            Renewal(*each[:2], now - each.times.started if each.times else None, each.reported) for each in releases
        ]
        with suppress(Locked):
            await self._rows(_RENEW, *_renew_values(self.worker, held))

    async def still_leased(self, leases: Sequence[tuple[int, int]]) -> set[int]:
        """The ids of those leases (id, epoch) that this worker still holds: another transaction had locked the run."""
        ids, epochs = zip(*leases, strict=True)
        query = "select wakeboard.still_leased(%s, %s::bigint[], %s::bigint[])"
        return {
            row[0] for row in await self._rows(query, self.worker.worker_id, number_array(ids), number_array(epochs))
        }

    async def _report(self, query: str, *values: Any) -> list[int]:
        """Calls a function that writes history; creates the partition of this week if it is missing."""
        with translating(self.conn):
            try:
                rows = await execute(self.conn, query, values)
            except psycopg.errors.CheckViolation as exc:
                if exc.diag.table_name != "job_run_history" or exc.diag.constraint_name:
                    raise
                await execute(self.conn, "select wakeboard.create_partitions()")
                rows = await execute(self.conn, query, values)
        return [row[0] for row in rows]

    # -- for handlers (LeaseLost when the lease is lost) ---------------------------------------------------------------

    async def step(
        self, run_id: int, epoch: int, name: str, result: str | None = None, error: str | None = None
    ) -> tuple[bool, Any]:
        """Starts a step, finishes it with a JSON text, or fails it. Returns (finished, its stored result)."""
        query = "select done, stored from wakeboard.step(%s, %s, %s, %s, %s::pg_catalog.text::pg_catalog.jsonb, %s)"
        done, stored = (await self._rows(query, self.worker.worker_id, run_id, epoch, name, result, error))[0]
        return done, stored

    async def consume(self, run_id: int, epoch: int, units: int) -> None:
        """Takes units of the rate limit of the run's limit key."""
        await self._rows("select wakeboard.consume(%s, %s, %s, %s)", self.worker.worker_id, run_id, epoch, units)

    async def run_results(self, run_id: int, epoch: int) -> list[Any]:
        """The results of the runs that this one waited for, in the order of `after`."""
        return await self._value("select wakeboard.run_results(%s, %s, %s)", self.worker.worker_id, run_id, epoch)

    async def effect(
        self, run_id: int, epoch: int, key: str, *, done: bool = False, forever: bool = False
    ) -> KnownEffect:
        """Records an external effect, of this run or `forever` of its key."""
        values = (self.worker.worker_id, run_id, epoch, key, done)
        if forever:
            query = "select state, first_run_uuid, held_by from wakeboard.effect_forever(%s, %s, %s, %s, %s)"
            return KnownEffect(*(await self._rows(query, *values))[0])
        return KnownEffect(await self._value("select wakeboard.effect(%s, %s, %s, %s, %s)", *values))

    # ------------------------------------------------------------------------------------------------------------------

    async def _rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        return await call(self.conn, query, *values)

    async def _value(self, query: str, *values: Any) -> Any:
        return (await self._rows(query, *values))[0][0]


async def read_backlog(conn: psycopg.AsyncConnection[Any], worker: Worker, scan_limit: int) -> dict[str, int]:
    """How many runs of each queue of `worker` execute or are due; at most `scan_limit` of each priority are counted."""
    query = "select queue, due from wakeboard.backlog(%s::pg_catalog.text[], %s, %s, %s)"
    return dict(await call(conn, query, text_array(worker.queues), 0, worker.max_timeout_s, scan_limit))


def renew(conn: psycopg.Connection[Any], worker: Worker, held: Sequence[Renewal]) -> list[Attention]:
    """The heartbeat: renews these leases for `lease_s` seconds. Returns only those that need attention.

    Blocking, on a connection of its own. `connection.abort` from another thread ends the wait for a reply.
    """
    return [Attention(*row) for row in call_blocking(conn, _RENEW, *_renew_values(worker, held))]


def _renew_values(worker: Worker, held: Sequence[Renewal]) -> tuple[Any, ...]:
    ids, epochs, ages, _ = zip(*held, strict=True) if held else ((), (), (), ())
    of_runs = [lease.reported.get(None) if lease.reported else None for lease in held]
    steps = [
        {"id": lease.id, "name": printable(name), "progress": progress.fraction, "message": _message(progress)}
        for lease in held
        for name, progress in (lease.reported or {}).items()
        if name is not None
    ]
    return (
        *(worker.worker_id, worker.lease_s, number_array(ids), number_array(epochs), _reals(ages)),
        *(_reals(each and each.fraction for each in of_runs), [each and _message(each) for each in of_runs]),
        json.dumps(steps) if steps else None,
    )


def _message(progress: Progress) -> str:
    return one_line(redact(progress.message, MAX_MESSAGE))


def release(conn: psycopg.Connection[Any], worker: Worker, releases: Sequence[Release]) -> set[int]:
    """As `WorkerStore.release`, over the heartbeat's connection. Returns the ids that were not accepted."""
    return {row[0] for row in call_blocking(conn, _RELEASE, *_release_values(worker, releases))}


def _release_values(worker: Worker, releases: Sequence[Release]) -> tuple[Any, ...]:
    ids, epochs, delays, reasons, times, _ = (list(column) for column in zip(*releases, strict=True))
    counted = [release.counted for release in releases]
    return worker.worker_id, ids, epochs, delays, counted, reasons, *_ages(times)


def _ages(times: Iterable[Times | None]) -> tuple[str, str]:
    """How long ago the handlers began and ended, as two arrays of seconds."""
    now, known = time.monotonic(), list(times)
    return (
        _reals(now - each.started if each else None for each in known),
        _reals(now - each.ended if each else None for each in known),
    )


def _reals(values: Iterable[float | None]) -> str:
    return "{" + ",".join("NULL" if value is None else f"{value:.3f}" for value in values) + "}"
