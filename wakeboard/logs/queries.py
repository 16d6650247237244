"""Stores batches of log lines, and reads the logs of attempts. Reads need SELECT on the tables."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Final, LiteralString, NamedTuple

import psycopg
from psycopg.rows import class_row, tuple_row

from wakeboard.logs.rules import AttemptLog, Line, LogPart, unpacked
from wakeboard.store.array_texts import bytes_array, number_array, unix_moment
from wakeboard.store.statements import call_blocking, read

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta
    from uuid import UUID

    from wakeboard.logs.rules import Batch

BATCHES_AT_ONCE: Final = 32  # of one read
MOST_PARTED: Final = 5_000  # batches
MOST_SEARCHED: Final = 200_000  # lines of one search

_STORE: Final = (
    "select wakeboard.store_logs(%s::pg_catalog.uuid[], %s::bigint[], %s::pg_catalog.int4[], %s::pg_catalog.int4[],"
    " %s::bigint[], %s::bigint[], %s::smallint[], %s::pg_catalog.timestamptz[], %s::pg_catalog.bytea[],"
    " %s::pg_catalog.int4[], %s::pg_catalog.int4[])"
)


def store_batches(conn: psycopg.Connection[Any], batches: Sequence[tuple[Batch, int, int]]) -> None:
    """Stores batches, and deletes others of the same attempt: from and to these numbers (0: none). Blocking.

    Creates the partition of this day if it is missing. Raises WakeboardError.
    """
    rows, firsts, lasts = zip(*batches, strict=True)
    uuids, *numbers, moments, lines = zip(*rows, strict=True)
    values = (
        f"{{{','.join(uuids)}}}",
        *map(number_array, numbers),
        f"{{{','.join([unix_moment(at) for at in moments])}}}",
        bytes_array(lines),
        number_array(firsts),
        number_array(lasts),
    )
    try:
        call_blocking(conn, _STORE, *values)
    except Exception as exc:
        cause = exc.__cause__ or exc
        if not isinstance(cause, psycopg.errors.CheckViolation) or cause.diag.constraint_name:
            raise
        call_blocking(conn, "select wakeboard.create_partitions()")
        call_blocking(conn, _STORE, *values)


_ATTEMPTS: LiteralString = """
select log.lease_epoch, log.attempt, least(tried.started_at, run.started_at, log.first_at) as began_at, log.last_line
  from (select lease_epoch, min(attempt)::integer as attempt, min(first_at) as first_at,
               max(last_line)::bigint as last_line
          from wakeboard.job_run_logs
         where run_uuid = %(uuid)s
         group by lease_epoch) as log
  left join wakeboard.job_attempts as tried on tried.run_id = %(run_id)s and tried.lease_epoch = log.lease_epoch
  left join wakeboard.all_runs as run on run.id = %(run_id)s and run.lease_epoch = log.lease_epoch
 order by log.lease_epoch
"""
# The order is that of the lines, because the batches of an attempt are stored in their order. It begins with the last
# batch that began before `since`.
_AFTER: LiteralString = """
select distinct on (sequence) extract(epoch from first_at)::float8, lines
  from wakeboard.job_run_logs
 where run_uuid = %(uuid)s and lease_epoch = %(epoch)s and last_line > %(after)s
   and first_at >= coalesce((select max(first_at)
                               from wakeboard.job_run_logs
                              where run_uuid = %(uuid)s and lease_epoch = %(epoch)s
                                and first_at <= pg_catalog.to_timestamp(%(since)s)), '-infinity')
 order by sequence
 limit %(count)s
"""
_BEFORE: LiteralString = """
select distinct on (sequence) extract(epoch from first_at)::float8, lines
  from wakeboard.job_run_logs
 where run_uuid = %(uuid)s and lease_epoch = %(epoch)s and first_line < %(before)s and level >= %(level)s
 order by sequence desc
 limit %(count)s
"""


_PARTS: LiteralString = """
select min(first_at) as first_at, max(first_at) as last_at, sum(last_line - first_line + 1)::bigint as lines,
       max(level)::integer as level
  from (select distinct on (lease_epoch, sequence) first_at, first_line, last_line, level
          from wakeboard.job_run_logs
         where run_uuid = %(uuid)s
         order by lease_epoch desc, sequence desc
         limit %(batches)s) as batch
 group by floor(extract(epoch from first_at) / %(slice_s)s)
 order by 1
"""


class LinesBefore(NamedTuple):
    """Lines, oldest first. `older`: the number before which there may be others; None: there are none."""

    lines: list[Line]
    older: int | None


class WantedLines(NamedTuple):
    """Lines of at least `level`, with `text` in any case. `since`, `until`: seconds since 1970."""

    level: int = 0
    text: str = ""
    since: float = 0.0
    until: float = inf

    def prepared(self) -> WantedLines:
        """The same for `has`."""
        return self._replace(text=self.text.lower())

    def has(self, line: Line) -> bool:
        """Whether the line is one of them."""
        return (
            line.level >= self.level
            and self.since <= line.at <= self.until
            and (not self.text or self.text in f"{line.source} {line.text}".lower())
        )


EVERY_LINE: Final = WantedLines()


async def attempt_logs(conn: psycopg.AsyncConnection[Any], run_id: int, run_uuid: UUID) -> list[AttemptLog]:
    """The attempts of a run that have a log, oldest first."""
    return await read(conn, class_row(AttemptLog), _ATTEMPTS, {"run_id": run_id, "uuid": run_uuid})


async def log_parts(conn: psycopg.AsyncConnection[Any], run_uuid: UUID, slice_s: float) -> list[LogPart]:
    """When a run logged, in slices of so many seconds, from its last MOST_PARTED batches."""
    values = {"uuid": run_uuid, "slice_s": slice_s, "batches": MOST_PARTED}
    return await read(conn, class_row(LogPart), _PARTS, values)


async def lines_after(
    conn: psycopg.AsyncConnection[Any],
    run_uuid: UUID,
    epoch: int,
    after: int,
    count: int,
    wanted: WantedLines = EVERY_LINE,
) -> list[Line]:
    """At most about `count` wanted lines of an attempt behind the line `after`, in their order. []: there are none yet.

    It examines about MOST_SEARCHED lines at most.
    """
    found: list[Line] = []
    wanted, searched, reached = wanted.prepared(), 0, 0.0
    values = {"uuid": run_uuid, "epoch": epoch, "since": wanted.since, "count": BATCHES_AT_ONCE}
    while len(found) < count and searched < MOST_SEARCHED and reached <= wanted.until:
        rows = await read(conn, tuple_row, _AFTER, {**values, "after": after})
        new = [line for at, lines in rows for line in unpacked(lines, at) if line.number > after]
        if not new:
            break
        searched += len(new)
        after, reached = new[-1].number, new[-1].at
        found += filter(wanted.has, new)
    return found[:count]


async def lines_before(
    conn: psycopg.AsyncConnection[Any],
    run_uuid: UUID,
    epoch: int,
    before: int,
    count: int,
    wanted: WantedLines = EVERY_LINE,
) -> LinesBefore:
    """The last `count` wanted lines of an attempt before the line `before`.

    It examines about MOST_SEARCHED lines at most: with fewer lines than `count`, go on before `older` if there is one.
    """
    found: list[Line] = []  # newest first
    wanted, searched = wanted.prepared(), 0
    values = {"uuid": run_uuid, "epoch": epoch, "level": wanted.level, "count": BATCHES_AT_ONCE}
    while len(found) <= count:
        if searched >= MOST_SEARCHED:
            return LinesBefore(found[::-1], before)
        rows = await read(conn, tuple_row, _BEFORE, {**values, "before": before})
        new = [line for at, lines in rows for line in reversed(unpacked(lines, at)) if line.number < before]
        if not new:
            return LinesBefore(found[::-1], None)
        searched += len(new)
        before = new[-1].number
        found += filter(wanted.has, new)
    return LinesBefore(found[:count][::-1], found[count - 1].number)


async def log_retention(conn: psycopg.AsyncConnection[Any]) -> timedelta:
    """How long the installation keeps logs."""
    return (await read(conn, tuple_row, "select log_retention from wakeboard.installation"))[0][0]


_NEWEST_RUN: LiteralString = """
select max(id)
  from wakeboard.all_runs
 where definition_id = %(definition)s and id > %(after)s and started_at is not null
"""


async def newest_started_run(conn: psycopg.AsyncConnection[Any], definition_id: int, after: int = 0) -> int | None:
    """The id of the newest run of a schedule that has started, above `after`; None: there is none."""
    values = {"definition": definition_id, "after": after}
    return (await read(conn, tuple_row, _NEWEST_RUN, values))[0][0]
