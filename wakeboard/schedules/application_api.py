"""Schedules that an application creates, in the application's own transaction.

`conn` is a connection as for `enqueue`; over an async one the call is awaited. The schedule exists, is edited
or is removed when the transaction commits, and not if it rolls back. SQL functions check it, so that plain SQL is
refused with the same sentences.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, TypedDict, Unpack, overload

from wakeboard.engine.enqueue import check_texts, payload_json
from wakeboard.engine.refused_job import is_iterable, shown
from wakeboard.engine.typed_payloads import plain_payload
from wakeboard.errors import InvalidValue, Locked
from wakeboard.store.callers_connection import callers_connection
from wakeboard.store.statements import checked_call
from wakeboard.text.canonical_json import check_payload
from wakeboard.text.durations import parse_duration
from wakeboard.text.similar_names import closest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Generator, Iterable, Mapping

    from wakeboard.engine.enqueue import BackoffStrategy
    from wakeboard.store.callers_connection import AwaitableConnection, BlockingConnection
    from wakeboard.ticks.catch_up import CatchUpPolicy
    from wakeboard.ticks.dst_ticks import Gap, Overlap

ConcurrencyPolicy: TypeAlias = Literal["Allow", "Forbid", "Replace", "Queue"]
_Connection: TypeAlias = "BlockingConnection | AwaitableConnection"

_SCHEDULE_MANY: Final = checked_call("select id, answer from wakeboard.schedule_many(%s::pg_catalog.jsonb)")
_UNSCHEDULE: Final = checked_call("select wakeboard.unschedule(%s)")
_UNSCHEDULE_ALL: Final = checked_call("select wakeboard.unschedule_all(%s)")
_PAUSE: Final = checked_call("select wakeboard.pause_schedules(%s, %s)")
_RESUME: Final = checked_call("select wakeboard.resume_schedules(%s, %s)")
_LIST: Final = checked_call("""
select id, name, definition::pg_catalog.text, generation, paused, next_run_at, last_tick_at, error
  from wakeboard.list_schedules(%s, %s, %s::integer)""")


class ScheduleOptions(TypedDict, total=False):
    """When a schedule is due, and what its runs are like: the fields of a JobSchedule, with its defaults and bounds.

    Fields that end in _s are seconds. One of `cron`, `every` (1 second to 366 days of real time, counted from
    `starts_at` or from 1970) and `at` (once) says when; none: only on demand. There are no ticks before `starts_at`
    and none after `ends_at`. After its last tick it removes itself. `suspended`: it has no ticks. After
    `alert_after_missed` ticks in a row (default 1) without a success `expect_success_within_s` after the tick there is
    an alert.
    """

    cron: str | None
    time_zone: str
    queue: str
    priority: int
    limit_key: str | None
    concurrency_policy: ConcurrencyPolicy
    catch_up: CatchUpPolicy
    catch_up_limit: int
    starting_deadline_s: int | None
    jitter_s: int
    dst_gap: Gap
    dst_overlap: Overlap
    suspended: bool
    suspend_after_dead: int | None
    max_attempts: int
    timeout_s: int
    backoff: BackoffStrategy
    backoff_base_s: int
    backoff_cap_s: int
    every: timedelta | None
    at: datetime | None
    starts_at: datetime | None
    ends_at: datetime | None
    expect_success_within_s: int | None
    alert_after_missed: int | None


@dataclass(frozen=True, slots=True)
class Schedule:
    """One of the schedules of `schedule_many`. `name`: namespace/name. The other fields are ScheduleOptions.

    tools/generate_schedule_columns.py writes these fields into the SQL functions that name them all.
    """

    name: str
    job_type: str
    payload: Any = None
    cron: str | None = None
    time_zone: str = "Etc/UTC"
    queue: str = "default"
    priority: int = 3
    limit_key: str | None = None
    concurrency_policy: ConcurrencyPolicy = "Allow"
    catch_up: CatchUpPolicy = "Latest"
    catch_up_limit: int = 100
    starting_deadline_s: int | None = None
    jitter_s: int = 0
    dst_gap: Gap = "RunAfter"
    dst_overlap: Overlap = "First"
    suspended: bool = False
    suspend_after_dead: int | None = None
    max_attempts: int = 5
    timeout_s: int = 600
    backoff: BackoffStrategy = "exponential"
    backoff_base_s: int = 10
    backoff_cap_s: int = 3600
    every: timedelta | None = None
    at: datetime | None = None
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    expect_success_within_s: int | None = None
    alert_after_missed: int | None = None


_OPTIONS: Final = {field.name: field.default for field in fields(Schedule)[3:]}
_CASTS: Final = {
    "int": "::integer",
    "bool": "::boolean",
    "timedelta": "::pg_catalog.interval",
    "datetime": "::pg_catalog.timestamptz",
}
_PLACES: Final = {
    field.name: f"{field.name} => %s{_CASTS.get(str(field.type).partition(' ')[0], '')}"
    for field in fields(Schedule)[3:]
}
_TEXTS: Final = {"cron", "limit_key", *(name for name, given in _OPTIONS.items() if isinstance(given, str))}
_TIMES: Final = {"every", "at", "starts_at", "ends_at"}
_EXAMPLE: Final = "datetime(2031, 1, 1, 8, tzinfo=UTC)"
_INTEGERS: Final = 2**31
_read_options: Final = attrgetter(*_OPTIONS)


class Scheduled(NamedTuple):
    """A schedule that an application created or edited. `answer`: created, updated, unchanged or ended.

    ended: it has no ticks. `ends_at` has passed, its moment is not after its newest tick, or its last tick was handled.
    """

    id: int
    answer: str


class StoredSchedule(NamedTuple):
    """A schedule of applications. `definition`: the fields of `Schedule` that differ from their defaults.

    `next_run_at` None: there is no next tick, or the scheduler has not seen the schedule yet. `error`: why its ticks
    cannot be computed.
    """

    id: int
    name: str
    definition: dict[str, Any]
    generation: int
    paused: bool
    next_run_at: datetime | None
    last_tick_at: datetime | None
    error: str | None


@overload
def schedule(
    conn: BlockingConnection, name: str, job_type: str, payload: Any = None, **options: Unpack[ScheduleOptions]
) -> Scheduled: ...
@overload
def schedule(
    conn: AwaitableConnection,
    name: str,
    job_type: str,
    payload: Any = None,
    **options: Unpack[ScheduleOptions],
) -> Awaitable[Scheduled]: ...
def schedule(
    conn: _Connection, name: str, job_type: str, payload: Any = None, **options: Unpack[ScheduleOptions]
) -> Scheduled | Awaitable[Scheduled]:
    """Creates the schedule `name` ("namespace/name"), or edits it if its definition is another one.

    `options`: see ScheduleOptions. Its first tick is after this call, but an `at` that has passed is due at once. The
    same call again changes nothing. Of two callers with one name, the second waits for the first, at most 2 seconds.
    Raises InvalidValue for what `kubectl apply` refuses, and for a name that a cluster or a folder declares.
    """
    over = callers_connection(conn)
    if not options.keys() <= _OPTIONS.keys():
        raise _unknown(next(option for option in options if option not in _OPTIONS))
    _check(name, job_type, options)
    text = payload_json({} if payload is None else plain_payload(payload))
    values = (name, job_type, text, *options.values())
    return over.call(_statement(tuple(options)), values, lambda rows: Scheduled(*rows[0]), _naming(name))


@overload
def schedule_many(conn: BlockingConnection, schedules: Iterable[Schedule]) -> list[Scheduled]: ...
@overload
def schedule_many(conn: AwaitableConnection, schedules: Iterable[Schedule]) -> Awaitable[list[Scheduled]]: ...
def schedule_many(conn: _Connection, schedules: Iterable[Schedule]) -> list[Scheduled] | Awaitable[list[Scheduled]]:
    """Creates or edits many schedules in one statement, all or none. Returns what happened to each, in order.

    Raises as `schedule` does. Of several, the message begins with the place: `schedules[3] (customers/42): `.
    """
    over = callers_connection(conn)
    if not is_iterable(schedules):
        raise InvalidValue(f"schedules is {shown(schedules)}; write a list of wakeboard.Schedule")
    rows = list[dict[str, Any]]()
    for place, one in enumerate(schedules):
        if not isinstance(one, Schedule):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidValue(f"schedules[{place}] is {shown(one)}; write a wakeboard.Schedule")
        named = zip(_OPTIONS.items(), _read_options(one), strict=True)
        given = {name: value for (name, default), value in named if value is not default}
        try:
            _check(one.name, one.job_type, given)
            rows.append(_row(one, given))
        except InvalidValue as problem:
            raise _of_schedule(place, one.name, problem) from None
    text = payload_json(rows, _check_payloads)
    return over.call(_SCHEDULE_MANY, (text,), lambda made: list(map(Scheduled._make, made)))


@overload
def unschedule(conn: BlockingConnection, name: str) -> bool: ...
@overload
def unschedule(conn: AwaitableConnection, name: str) -> Awaitable[bool]: ...
def unschedule(conn: _Connection, name: str) -> bool | Awaitable[bool]:
    """Removes the schedule `name` that an application created. False if there is none.

    Queued and failed runs of it are cancelled; running ones finish.
    """
    return _call_with_texts(conn, _UNSCHEDULE, name=name)


@overload
def unschedule_all(conn: BlockingConnection, pattern: str) -> int: ...
@overload
def unschedule_all(conn: AwaitableConnection, pattern: str) -> Awaitable[int]: ...
def unschedule_all(conn: _Connection, pattern: str) -> int | Awaitable[int]:
    """Removes the schedules of applications that match, such as "customers/42-*", and returns how many."""
    return _call_with_texts(conn, _UNSCHEDULE_ALL, pattern=pattern)


@overload
def pause_schedules(conn: BlockingConnection, pattern: str, reason: str = "") -> int: ...
@overload
def pause_schedules(conn: AwaitableConnection, pattern: str, reason: str = "") -> Awaitable[int]: ...
def pause_schedules(conn: _Connection, pattern: str, reason: str = "") -> int | Awaitable[int]:
    """Pauses the schedules of applications that match, a name or "customers/42-*". Returns how many it paused.

    They create no runs until `resume_schedules`; then catch_up decides about the missed ticks.
    """
    return _call_with_texts(conn, _PAUSE, pattern=pattern, reason=reason)


@overload
def resume_schedules(conn: BlockingConnection, pattern: str, reason: str = "") -> int: ...
@overload
def resume_schedules(conn: AwaitableConnection, pattern: str, reason: str = "") -> Awaitable[int]: ...
def resume_schedules(conn: _Connection, pattern: str, reason: str = "") -> int | Awaitable[int]:
    """Ends the pauses of the schedules of applications that match. Returns how many it resumed."""
    return _call_with_texts(conn, _RESUME, pattern=pattern, reason=reason)


@overload
def list_schedules(
    conn: BlockingConnection, pattern: str, *, after: str = "", count: int = 100
) -> list[StoredSchedule]: ...
@overload
def list_schedules(
    conn: AwaitableConnection, pattern: str, *, after: str = "", count: int = 100
) -> Awaitable[list[StoredSchedule]]: ...
def list_schedules(
    conn: _Connection, pattern: str, *, after: str = "", count: int = 100
) -> list[StoredSchedule] | Awaitable[list[StoredSchedule]]:
    """The schedules of applications that match ("customers/*"; "*/*": all; a name: one), in the order of their names.

    At most `count` after the name `after`: pass the last name of a page to get the next one.
    """
    over = callers_connection(conn)
    check_texts(pattern=pattern, after=after)
    if not _is_like(count, 0):
        raise InvalidValue(f"count is {shown(count)}; write a whole number")
    return over.call(_LIST, (pattern, after, count), lambda rows: [_stored(*row) for row in rows])


@overload
def get_schedule(conn: BlockingConnection, name: str) -> StoredSchedule | None: ...
@overload
def get_schedule(conn: AwaitableConnection, name: str) -> Awaitable[StoredSchedule | None]: ...
def get_schedule(conn: _Connection, name: str) -> StoredSchedule | Awaitable[StoredSchedule | None] | None:
    """The schedule of this name that an application created, or None."""
    over = callers_connection(conn)
    check_texts(name=name)
    if "*" in name:
        raise InvalidValue(f"name is {shown(name)}; write the name of one schedule, or call list_schedules")
    return over.call(_LIST, (name, "", 1), lambda rows: _stored(*rows[0]) if rows else None)


def _stored(schedule_id: int, name: str, text: str, *facts: Any) -> StoredSchedule:
    definition: dict[str, Any] = json.loads(text)
    for key in _TIMES & set(definition):
        given = definition[key]
        definition[key] = (
            timedelta(seconds=parse_duration(given) or 0) if key == "every" else datetime.fromisoformat(given)
        )
    return StoredSchedule(schedule_id, name, definition, *facts)


def _call_with_texts(conn: _Connection, query: bytes, **arguments: str) -> Any:
    over = callers_connection(conn)
    check_texts(**arguments)
    return over.call(query, tuple(arguments.values()), lambda rows: rows[0][0])


@contextmanager
def _naming(name: str) -> Generator[None]:
    """Names the schedule in `Locked`, as `schedule_many` does in SQL: `schedule` spares the subtransaction for that."""
    try:
        yield
    except Locked as problem:
        problem.args = (f"{name}: {problem}",)
        raise


@lru_cache(maxsize=256)
def _statement(options: tuple[str, ...]) -> bytes:
    """The call with these options. What is not given costs nothing, on either side."""
    payload = "%s::pg_catalog.text::pg_catalog.jsonb"
    given = ", ".join(["%s, %s", payload, *(_PLACES[name] for name in options)])
    return checked_call(f"select id, answer from wakeboard.schedule({given})")  # noqa: S608


def _unknown(option: str) -> TypeError:
    """The error of a call with an unknown argument, which may have the name of a field in YAML."""
    meant = closest(option, list(_OPTIONS))
    return TypeError(f"schedule() has no argument {option}" + (f"; did you mean {meant}?" if meant else ""))


def _check(schedule_name: str, job_type: str, options: Mapping[str, Any]) -> None:
    """Raises InvalidValue for what psycopg would send as another type; the SQL function checks the values."""
    for name, value in (("name", schedule_name), ("job_type", job_type)):
        if value is None:  # pyright: ignore[reportUnnecessaryComparison]
            raise InvalidValue(f'{name} is None; write for example "customers/42-report" and "send_report"')
    zone = options.get("time_zone")
    if isinstance(key := getattr(zone, "key", None), str):
        raise InvalidValue(f'time_zone is a {type(zone).__name__}; write its name, time_zone="{key}"')
    texts = {name: value for name, value in options.items() if name in _TEXTS}
    check_texts(name=schedule_name, job_type=job_type, **texts)
    for name, value in options.items():
        if name in texts or value is None:
            continue
        if name in _TIMES:
            _check_time(name, value)
        elif not _is_like(value, _OPTIONS[name]):
            raise InvalidValue(
                f"{name} is {shown(value)}; write {'True or False' if name == 'suspended' else 'a whole number'}"
            )


def _is_like(value: Any, default: Any) -> bool:
    """Whether a value has the type of an option's default, or is a whole number that Postgres can store."""
    return type(value) is type(0 if default is None else default) and abs(value) < _INTEGERS


def _check_time(name: str, value: object) -> None:
    kind = timedelta if name == "every" else datetime
    if not isinstance(value, kind):
        example = f", for example timedelta(seconds={value})" if name == "every" and type(value) is int else ""
        raise InvalidValue(f"{name} is {shown(value)}; write a {kind.__name__}{example}")
    if isinstance(value, datetime) and value.utcoffset() is None:
        raise InvalidValue(f"{name} is {value}, which has no time zone; write for example {_EXAMPLE}")


def _check_payloads(rows: list[dict[str, Any]]) -> None:
    for place, row in enumerate(rows):
        try:
            check_payload(row["payload"])
        except InvalidValue as problem:
            raise _of_schedule(place, row["name"], problem) from None


def _of_schedule(place: int, name: str, problem: InvalidValue) -> InvalidValue:
    return InvalidValue(f"schedules[{place}] ({name}): {problem}")


def _row(one: Schedule, options: Mapping[str, Any]) -> dict[str, Any]:
    given = dict(options)
    for name in _TIMES & set(given):
        given[name] = _interval(given[name]) if name == "every" else given[name].isoformat()
    payload: Any = {} if one.payload is None else plain_payload(one.payload)
    return {"name": one.name, "job_type": one.job_type, "payload": payload, **given}


def _interval(value: timedelta) -> str:
    """As psycopg sends it, and Postgres reads it: exactly, whatever its size."""
    return f"{value.days} day {value.seconds}.{value.microseconds:06} s"
