"""Enqueueing from an application, in the application's own transaction.

`conn` is a connection of psycopg, SQLAlchemy, asyncpg or Django (store/callers_connection.py); over an async one the
call is awaited. The run exists when the transaction commits, and not if it rolls back.
"""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from operator import attrgetter, index
from typing import TYPE_CHECKING, Any, Final, Literal, LiteralString, NamedTuple, TypeAlias, overload
from uuid import UUID

from wakeboard.engine.refused_job import EXAMPLE, check_fields, is_iterable, naming_job, of_job, shown
from wakeboard.engine.typed_payloads import plain_payload
from wakeboard.errors import InvalidValue
from wakeboard.process.enqueue_span import start_enqueue_span
from wakeboard.store.callers_connection import callers_connection
from wakeboard.store.statements import checked_call
from wakeboard.text.canonical_json import check_payload, check_text
from wakeboard.text.humanize import WAITS_FOR_RUNS_UNTIL
from wakeboard.text.object_ids import LARGEST_ID

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from wakeboard.process.enqueue_span import EnqueueSpan
    from wakeboard.store.callers_connection import AwaitableConnection, BlockingConnection

BackoffStrategy: TypeAlias = Literal["exponential", "fixed"]
IfExists: TypeAlias = Literal["keep", "replace"]
_UniqueValues: TypeAlias = tuple[int | None, list[str] | None, IfExists]
_Parents: TypeAlias = tuple[list[int], list[str | None]]  # the ids and uuids of the runs to wait for

_NOT_UNIQUE: Final[_UniqueValues] = (None, None, "keep")

# They run in the caller's session, with the caller's search_path. A call sends the later arguments only if it needs
# them: a database that has not been migrated yet does not know them.
_CALL: LiteralString = """
select id, uuid::pg_catalog.text, created, status
  from wakeboard.enqueue(%s, %s::pg_catalog.text::pg_catalog.jsonb, %s, %s, %s::pg_catalog.timestamptz,
                         %s, %s, %s, %s, %s, %s, %s"""
# Payloads go as one document, columns as binary arrays: quoting them one by one takes as long as writing the runs.
_CALL_MANY: LiteralString = """
select id, uuid::pg_catalog.text, created, status
  from wakeboard.enqueue_many(
         %b::pg_catalog.text[],
         array(select payload from pg_catalog.jsonb_array_elements(%s::pg_catalog.jsonb) as payload),
         %b::pg_catalog.text[], %b::integer[], %b::pg_catalog.timestamptz[], %b::pg_catalog.text[],
         %b::pg_catalog.text[], %s, %s"""
_UNIQUE: LiteralString = ", %s, %s::pg_catalog.text[], %s"
_TRACED: LiteralString = _UNIQUE + ", %s, %s"
_AFTER: LiteralString = _TRACED + ", %s::bigint[], %s::pg_catalog.text[]::pg_catalog.uuid[]"
_MANY_AFTER: LiteralString = _TRACED + ", %s::pg_catalog.jsonb"
_ENQUEUE: Final = [checked_call(_CALL + later + ")") for later in ("", _UNIQUE, _TRACED, _AFTER)]
_ENQUEUE_MANY: Final = [checked_call(_CALL_MANY + later + ")") for later in ("", _UNIQUE, _TRACED, _MANY_AFTER)]
_STATUS = checked_call("select status, run_at from wakeboard.get_run(%s, %s::pg_catalog.uuid)")
_SECONDS = (1, 2_678_400, "a number of seconds from 1 to 2678400 (31 days)")
_BOUNDS: Final[dict[str, tuple[int, int, str]]] = {
    "priority": (1, 5, "a whole number from 1 to 5, of which 5 goes first"),
    "max_attempts": (1, 1000, "a whole number from 1 to 1000"),
    "timeout_s": _SECONDS,
    "backoff_base_s": _SECONDS,
    "backoff_cap_s": _SECONDS,
    "unique_for": _SECONDS,
    "after": (1, LARGEST_ID, "the ids of runs, such as [12, 13]"),
}
_EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TOO_LATE: Final = datetime(3000, 1, 1, tzinfo=UTC)
_COMPACT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class Enqueued(NamedTuple):
    """A run that an application enqueued.

    Pass it as an element of `after`: with its uuid, it is not taken for another run after the database has lost its
    last commits. `created` is False if it is an earlier run, which has the idempotency key or the unique values.
    `status` is then queued, running, failed or dead, or None if it has ended. `uuid` and `status` are None if another
    database role enqueued it.
    """

    id: int
    uuid: UUID | None
    created: bool
    status: str | None


class EnqueuedJob(NamedTuple):
    """A run that `enqueue_many` enqueued: as `Enqueued`, but `uuid` is made of its text only when it is read."""

    id: int
    uuid_text: str | None
    created: bool
    status: str | None

    @property
    def uuid(self) -> UUID | None:
        """As that of `Enqueued`."""
        return _uuid(self.uuid_text)


@dataclass(frozen=True, slots=True)
class Job:
    """One of the runs that `enqueue_many` creates. The fields mean what they do for `enqueue`.

    `after` names runs that exist: those of the same call have no ids yet.
    """

    job_type: str
    payload: Any = None
    queue: str = "default"
    priority: int = 3
    run_at: datetime | None = None
    idempotency_key: str | None = None
    limit_key: str | None = None
    after: Iterable[Enqueued | EnqueuedJob | int] | None = None


@overload
def enqueue(
    conn: BlockingConnection,
    job_type: str,
    payload: Any = None,
    *,
    queue: str = ...,
    priority: int = ...,
    run_at: datetime | None = ...,
    idempotency_key: str | None = ...,
    limit_key: str | None = ...,
    max_attempts: int = ...,
    timeout_s: int = ...,
    backoff: BackoffStrategy = ...,
    backoff_base_s: int = ...,
    backoff_cap_s: int = ...,
    unique_for: int | None = ...,
    unique_by: Sequence[str] | None = ...,
    if_exists: IfExists = ...,
    after: Iterable[Enqueued | EnqueuedJob | int] | None = ...,
) -> Enqueued: ...
@overload
def enqueue(
    conn: AwaitableConnection,
    job_type: str,
    payload: Any = None,
    *,
    queue: str = ...,
    priority: int = ...,
    run_at: datetime | None = ...,
    idempotency_key: str | None = ...,
    limit_key: str | None = ...,
    max_attempts: int = ...,
    timeout_s: int = ...,
    backoff: BackoffStrategy = ...,
    backoff_base_s: int = ...,
    backoff_cap_s: int = ...,
    unique_for: int | None = ...,
    unique_by: Sequence[str] | None = ...,
    if_exists: IfExists = ...,
    after: Iterable[Enqueued | EnqueuedJob | int] | None = ...,
) -> Awaitable[Enqueued]: ...
def enqueue(  # noqa: PLR0913 - one keyword for each column that an application may set
    conn: BlockingConnection | AwaitableConnection,
    job_type: str,
    payload: Any = None,
    *,
    queue: str = "default",
    priority: int = 3,
    run_at: datetime | None = None,
    idempotency_key: str | None = None,
    limit_key: str | None = None,
    max_attempts: int = 5,
    timeout_s: int = 600,
    backoff: BackoffStrategy = "exponential",
    backoff_base_s: int = 10,
    backoff_cap_s: int = 3600,
    unique_for: int | None = None,
    unique_by: Sequence[str] | None = None,
    if_exists: IfExists = "keep",
    after: Iterable[Enqueued | EnqueuedJob | int] | None = None,
) -> Enqueued | Awaitable[Enqueued]:
    """Enqueues one run: due at `run_at` (now when None), priority 1 to 5 (5 first).

    `payload`: any JSON object or list, or an instance of a pydantic model or a dataclass.
    A failed run is retried after `backoff_base_s` seconds, doubled with each attempt up to `backoff_cap_s` (fixed:
    always `backoff_base_s`). The store refuses a `backoff_cap_s` below `backoff_base_s`.
    With an idempotency key (unique per job type) a second call returns the first run with `created` False.
    With `unique_for`, in seconds from 1 to 2,678,400 (31 days), so does a call within this time whose payload has the
    same values of the keys `unique_by`: at most 16 names; None means the whole payload. If the first run still waits
    (queued or failed), `if_exists="replace"` gives it the new payload and `run_at`, and its attempts and its
    `unique_for` begin again. "keep" leaves it as it is. A run that waits for other runs, is running, dead or has ended
    is always kept.
    In a span of OpenTelemetry, its trace context is stored with the run, and the spans of the attempts continue it.
    With `after`, the run waits until these runs (what `enqueue` returned, or ids; at most 1,000) have succeeded;
    `run.results` gives its handler their results. Until the transaction ends, they cannot be claimed or completed.
    Raises KeyReused if the key belongs to another payload, and WakeboardError if the store refuses a value.
    """
    over = callers_connection(conn)
    if job_type is None:  # pyright: ignore[reportUnnecessaryComparison]
        raise InvalidValue("job_type is None; write the name of a job type")
    check_texts(job_type=job_type, queue=queue, idempotency_key=idempotency_key, limit_key=limit_key, backoff=backoff)
    _check_moment(run_at)
    _check_numbers(
        priority=[priority],
        max_attempts=[max_attempts],
        timeout_s=[timeout_s],
        backoff_base_s=[backoff_base_s],
        backoff_cap_s=[backoff_cap_s],
    )
    values = (
        *(
            job_type,
            payload_json({} if payload is None else plain_payload(payload)),
            queue,
            priority,
            run_at,
            idempotency_key,
            limit_key,
        ),
        *(max_attempts, timeout_s, backoff, backoff_base_s, backoff_cap_s),
    )
    unique = _unique_values(unique_for, unique_by, if_exists)
    parents = () if after is None else _parents(after)
    span = start_enqueue_span(job_type, queue)
    statement = _statement(_ENQUEUE, values, unique, span, parents)
    return over.call(*statement, lambda rows: _enqueued(rows, span), span or nullcontext())


@overload
def enqueue_many(
    conn: BlockingConnection,
    jobs: Iterable[Job],
    *,
    max_attempts: int = ...,
    timeout_s: int = ...,
    unique_for: int | None = ...,
    unique_by: Sequence[str] | None = ...,
    if_exists: IfExists = ...,
) -> list[EnqueuedJob]: ...
@overload
def enqueue_many(
    conn: AwaitableConnection,
    jobs: Iterable[Job],
    *,
    max_attempts: int = ...,
    timeout_s: int = ...,
    unique_for: int | None = ...,
    unique_by: Sequence[str] | None = ...,
    if_exists: IfExists = ...,
) -> Awaitable[list[EnqueuedJob]]: ...
def enqueue_many(
    conn: BlockingConnection | AwaitableConnection,
    jobs: Iterable[Job],
    *,
    max_attempts: int = 5,
    timeout_s: int = 600,
    unique_for: int | None = None,
    unique_by: Sequence[str] | None = None,
    if_exists: IfExists = "keep",
) -> list[EnqueuedJob] | Awaitable[list[EnqueuedJob]]:
    """Enqueues many runs in one statement, all or none. Returns them in order.

    Raises as `enqueue` does. The message of an InvalidValue begins with the job, `jobs[3] (send_mail): `, if the job
    can be found. `unique_for`, `unique_by` and `if_exists` hold for each job, also among the jobs of one call.
    """
    over = callers_connection(conn)
    _check_numbers(max_attempts=[max_attempts], timeout_s=[timeout_s])
    if not is_iterable(jobs):
        raise InvalidValue(f"jobs is of type {type(jobs).__name__}; write a list, such as [{EXAMPLE}]")
    jobs = list(jobs)
    columns, parents = _checked(jobs)
    values = (*columns, max_attempts, timeout_s)
    unique = _unique_values(unique_for, unique_by, if_exists)
    span = start_enqueue_span(jobs[0].job_type, jobs[0].queue, len(jobs)) if jobs else None
    statement = _statement(_ENQUEUE_MANY, values, unique, span, () if parents is None else (parents,))
    naming = naming_job(jobs, parents, unique=unique is not None)
    return over.call(*statement, lambda rows: list(map(EnqueuedJob._make, rows)), naming, span or nullcontext())


async def was_replaced(conn: AwaitableConnection, run: Enqueued) -> bool:
    """Whether an `enqueue` with `if_exists="replace"` in the same transaction has replaced this earlier run.

    That is so if it is queued or failed and waits for no other run.
    """
    rows = await callers_connection(conn).call(_STATUS, (run.id, run.uuid), list)
    return any(status in {"queued", "failed"} and run_at < WAITS_FOR_RUNS_UNTIL for status, run_at in rows)


def _statement(
    statements: list[bytes],
    values: tuple[Any, ...],
    unique: _UniqueValues | None,
    span: EnqueueSpan | None,
    parents: tuple[Any, ...],
) -> tuple[bytes, tuple[Any, ...]]:
    """The first of the statements that has what is given as parameters, and their values."""
    trace = (span.traceparent, span.tracestate) if span is not None else (None, None)
    later = [unique or _NOT_UNIQUE, trace, parents]
    needed = 3 if parents else 2 if span is not None else 1 if unique else 0
    return statements[needed], (*values, *chain(*later[:needed]))


def _uuid(text: str | None) -> UUID | None:
    return None if text is None else UUID(text)


def _enqueued(rows: Sequence[tuple[Any, ...]], span: EnqueueSpan | None) -> Enqueued:
    run_id, uuid, created, status = rows[0]
    run = Enqueued(run_id, _uuid(uuid), created, status)
    if span is not None:
        span.created(run.id)
    return run


def _unique_values(
    unique_for: int | None, unique_by: Sequence[str] | None, if_exists: IfExists
) -> _UniqueValues | None:
    """The arguments of a unique window. None if nothing of it is given."""
    if unique_for is None and unique_by is None and if_exists in ("keep", None):
        return None
    _check_numbers(unique_for=[unique_for])
    if unique_by is not None and (isinstance(unique_by, str | bytes) or not is_iterable(unique_by)):
        raise InvalidValue(
            f"unique_by is {shown(unique_by)}; write a list of keys of the payload, such as ['customer']"
        )
    names = None if unique_by is None else list(unique_by)
    _check_column("unique_by", names or ())
    check_texts(if_exists=if_exists)
    return unique_for, names, if_exists


def _parents(after: Iterable[Enqueued | EnqueuedJob | int]) -> _Parents:
    """The runs to wait for. The uuid of one that is given by its id is None."""
    is_run = isinstance(after, Enqueued | EnqueuedJob | int)
    if is_run or isinstance(after, str | bytes) or not is_iterable(after):
        raise InvalidValue(f"after is {shown(after)}; write a list, such as [{after if is_run else '12, 13'}]")
    runs = list(after)
    ids = [run.id if isinstance(run, Enqueued | EnqueuedJob) else run for run in runs]
    _check_numbers(after=ids)
    uuids = [run.uuid if isinstance(run, Enqueued | EnqueuedJob) else None for run in runs]
    return list(map(index, ids)), [None if uuid is None else str(uuid) for uuid in uuids]


def _parents_of_each(jobs: list[Job]) -> str | None:
    """JSON with the runs that each one waits for. None if none waits."""
    if all(job.after is None for job in jobs):
        return None
    parents: list[list[int | dict[str, int | str]] | None] = []
    for place, job in enumerate(jobs):
        try:
            parents.append(None if job.after is None else _as_json(*_parents(job.after)))
        except InvalidValue as problem:
            raise of_job(place, job, problem) from None
    return payload_json(parents)


def _as_json(ids: list[int], uuids: list[str | None]) -> list[int | dict[str, int | str]]:
    return [run if uuid is None else {"id": run, "uuid": uuid} for run, uuid in zip(ids, uuids, strict=True)]


def _checked(jobs: list[Job]) -> tuple[tuple[list[Any] | str | None, ...], str | None]:
    """What `_columns` and `_parents_of_each` return. Raises InvalidValue with the place of the job that is refused."""
    try:
        return _columns(jobs), _parents_of_each(jobs)
    except (AttributeError, InvalidValue):
        check_fields(jobs, Job.__match_args__)
        for place, job in enumerate(jobs):
            try:
                _columns([job])
            except InvalidValue as problem:
                raise of_job(place, job, problem) from None
        raise  # the error of `_parents_of_each`, which names the job


def _columns(jobs: list[Job]) -> tuple[list[Any] | str | None, ...]:
    """One array per column, the payloads' as JSON; a column in which all rows have the default is sent as null."""

    def column(name: str, default: Any) -> list[Any] | None:
        values = list(map(attrgetter(name), jobs))
        return None if values.count(default) == len(values) else values

    payloads: list[Any] = [{} if job.payload is None else plain_payload(job.payload) for job in jobs]
    job_types = [job.job_type for job in jobs]
    queues, keys, limit_keys = column("queue", "default"), column("idempotency_key", None), column("limit_key", None)
    moments, priorities = column("run_at", None), column("priority", 3)
    for name, texts in (
        ("job_type", job_types),
        ("queue", queues),
        ("idempotency_key", keys),
        ("limit_key", limit_keys),
    ):
        _check_column(name, texts or ())
    for moment in moments or ():
        _check_moment(moment)
    _check_numbers(priority=priorities or ())
    return job_types, payload_json(payloads, _check_each), queues, priorities, moments, keys, limit_keys


def payload_json(payload: Any, check: Callable[[Any], None] = check_payload) -> str:
    """The JSON text of a payload, or of a list of them. `check` raises InvalidValue with the path of the problem."""
    try:
        text = _COMPACT.encode(payload)
        text.encode()
        may_hold_nul = "\\u0000" in text
    except (TypeError, ValueError, RecursionError) as exc:
        check(payload)
        raise InvalidValue(f"payload is not JSON: {exc}") from None
    if may_hold_nul:
        check(json.loads(text))
    return text


def _check_each(payloads: list[Any]) -> None:
    for one in payloads:
        check_payload(one)


# Checked here: Postgres resolves a function by its argument types, and reports a wrong type as a missing function.


def check_texts(**texts: str | None) -> None:
    """Raises InvalidValue, with the name, for a value that is not text, or a text that psycopg cannot send."""
    try:
        check_text("".join([text for text in texts.values() if text is not None]), "")  # almost always enough
    except (TypeError, InvalidValue):
        for name, text in texts.items():
            _check_column(name, [text])


def _check_column(name: str, texts: Iterable[object]) -> None:
    """Raises InvalidValue for a value that is not text, or a text that psycopg cannot send."""
    given = list[str]()
    for text in texts:
        if isinstance(text, str):
            given.append(text)
        elif text is not None:
            raise InvalidValue(f"{name} is {shown(text)}, which is not text; write it in quotes")
    check_text("".join(given), name)


def _check_numbers(**numbers: Iterable[Any]) -> None:
    """Raises InvalidValue for what is no whole number within its bounds. The SQL functions have the same bounds."""
    for name, column in numbers.items():
        least, greatest, wanted = _BOUNDS[name]
        for number in column:
            if type(number) is int and least <= number <= greatest:
                continue
            try:
                whole = None if isinstance(number, bool) else index(number)
            except TypeError:
                whole = None
            if whole is None or not least <= whole <= greatest:
                raise InvalidValue(f"{name} is {shown(number)}; write {wanted}")


def _check_moment(moment: object) -> None:
    if moment is None:
        return
    if not isinstance(moment, datetime):
        raise InvalidValue(
            f"run_at is {moment!r}, which is no datetime; write for example datetime(2031, 1, 1, 8, tzinfo=UTC)"
        )
    if moment.utcoffset() is None:
        raise InvalidValue(
            f"run_at is {moment}, which has no time zone; write for example datetime(2031, 1, 1, 8, tzinfo=UTC)"
        )
    if not _EARLIEST <= moment < _TOO_LATE:
        raise InvalidValue(f"run_at is {moment}; write a time from 1970 to 2999")
