"""Schedules that an application creates, in the application's own transaction.

`conn` is a psycopg 3 connection, sync or async; with an async one the call is awaited. The schedule exists, is edited
or is removed when the transaction commits, and not if it rolls back. SQL functions check it, so that plain SQL is
refused with the same sentences.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, overload

from wakeboard.engine.enqueue import check_texts, payload_json
from wakeboard.errors import InvalidValue
from wakeboard.store.connection import require_connection
from wakeboard.store.statements import call_in_transaction, checked_call

if TYPE_CHECKING:
    from collections.abc import Awaitable

    import psycopg

    from wakeboard.engine.enqueue import BackoffStrategy
    from wakeboard.ticks.catch_up import CatchUpPolicy
    from wakeboard.ticks.dst_ticks import Gap, Overlap

ConcurrencyPolicy: TypeAlias = Literal["Allow", "Forbid", "Replace", "Queue"]

_SCHEDULE: Final = checked_call("""
select id, answer
  from wakeboard.schedule(%s, %s, %s::pg_catalog.text::pg_catalog.jsonb, %s, %s, %s, %s::integer, %s, %s, %s,
    %s::integer, %s::integer, %s::integer, %s, %s, %s::boolean, %s::integer, %s::integer, %s::integer, %s, %s::integer,
    %s::integer)""")
_UNSCHEDULE: Final = checked_call("select wakeboard.unschedule(%s)")


class Scheduled(NamedTuple):
    """A schedule that an application created or edited. `answer`: created, updated or unchanged."""

    id: int
    answer: str


@overload
def schedule(
    conn: psycopg.Connection[Any],
    name: str,
    job_type: str,
    payload: Any = None,
    *,
    cron: str | None = ...,
    time_zone: str = ...,
    queue: str = ...,
    priority: int = ...,
    limit_key: str | None = ...,
    concurrency_policy: ConcurrencyPolicy = ...,
    catch_up: CatchUpPolicy = ...,
    catch_up_limit: int = ...,
    starting_deadline_s: int | None = ...,
    jitter_s: int = ...,
    dst_gap: Gap = ...,
    dst_overlap: Overlap = ...,
    suspended: bool = ...,
    suspend_after_dead: int | None = ...,
    max_attempts: int = ...,
    timeout_s: int = ...,
    backoff: BackoffStrategy = ...,
    backoff_base_s: int = ...,
    backoff_cap_s: int = ...,
) -> Scheduled: ...
@overload
def schedule(
    conn: psycopg.AsyncConnection[Any],
    name: str,
    job_type: str,
    payload: Any = None,
    *,
    cron: str | None = ...,
    time_zone: str = ...,
    queue: str = ...,
    priority: int = ...,
    limit_key: str | None = ...,
    concurrency_policy: ConcurrencyPolicy = ...,
    catch_up: CatchUpPolicy = ...,
    catch_up_limit: int = ...,
    starting_deadline_s: int | None = ...,
    jitter_s: int = ...,
    dst_gap: Gap = ...,
    dst_overlap: Overlap = ...,
    suspended: bool = ...,
    suspend_after_dead: int | None = ...,
    max_attempts: int = ...,
    timeout_s: int = ...,
    backoff: BackoffStrategy = ...,
    backoff_base_s: int = ...,
    backoff_cap_s: int = ...,
) -> Awaitable[Scheduled]: ...
def schedule(  # noqa: PLR0913 - one keyword for each column that an application may set
    conn: psycopg.Connection[Any] | psycopg.AsyncConnection[Any],
    name: str,
    job_type: str,
    payload: Any = None,
    *,
    cron: str | None = None,
    time_zone: str = "Etc/UTC",
    queue: str = "default",
    priority: int = 3,
    limit_key: str | None = None,
    concurrency_policy: ConcurrencyPolicy = "Allow",
    catch_up: CatchUpPolicy = "Latest",
    catch_up_limit: int = 100,
    starting_deadline_s: int | None = None,
    jitter_s: int = 0,
    dst_gap: Gap = "RunAfter",
    dst_overlap: Overlap = "First",
    suspended: bool = False,
    suspend_after_dead: int | None = None,
    max_attempts: int = 5,
    timeout_s: int = 600,
    backoff: BackoffStrategy = "exponential",
    backoff_base_s: int = 10,
    backoff_cap_s: int = 3600,
) -> Scheduled | Awaitable[Scheduled]:
    """Creates the schedule `name` ("namespace/name"), or edits it if its definition is another one.

    `cron`: when it is due, in `time_zone`; None: only on demand. The other arguments are the fields of a JobSchedule,
    with its defaults and bounds, in seconds where they end in _s. Its first tick is after this call. The same call
    again changes nothing. Of two callers with one name, the second waits for the first, at most 2 seconds.
    Raises InvalidValue for what `kubectl apply` refuses, and for a name that a cluster or a folder declares.
    """
    require_connection(conn)
    texts = (cron, time_zone, queue, limit_key, concurrency_policy, catch_up, dst_gap, dst_overlap, backoff)
    check_texts(name=name, job_type=job_type, **dict(zip(_TEXTS, texts, strict=True)))
    if name is None or job_type is None:  # pyright: ignore[reportUnnecessaryComparison]
        raise InvalidValue('a schedule needs a name and a job type; write for example "customers/42", "send_report"')
    values = (
        *(name, job_type, payload_json({} if payload is None else payload), cron, time_zone, queue, priority),
        *(limit_key, concurrency_policy, catch_up, catch_up_limit, starting_deadline_s, jitter_s, dst_gap, dst_overlap),
        *(suspended, suspend_after_dead, max_attempts, timeout_s, backoff, backoff_base_s, backoff_cap_s),
    )
    return call_in_transaction(conn, _SCHEDULE, values, lambda rows: Scheduled(*rows[0]))


@overload
def unschedule(conn: psycopg.Connection[Any], name: str) -> bool: ...
@overload
def unschedule(conn: psycopg.AsyncConnection[Any], name: str) -> Awaitable[bool]: ...
def unschedule(conn: psycopg.Connection[Any] | psycopg.AsyncConnection[Any], name: str) -> bool | Awaitable[bool]:
    """Removes the schedule `name` that an application created. False if there is none.

    Queued and failed runs of it are cancelled; running ones finish.
    """
    require_connection(conn)
    check_texts(name=name)
    return call_in_transaction(conn, _UNSCHEDULE, (name,), lambda rows: bool(rows[0][0]))


_TEXTS: Final = (
    "cron",
    "time_zone",
    "queue",
    "limit_key",
    "concurrency_policy",
    "catch_up",
    "dst_gap",
    "dst_overlap",
    "backoff",
)
