"""Counts, durations and lateness of finished runs, for the operator's metrics."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, LiteralString, NamedTuple

from psycopg.rows import class_row, scalar_row

from wakeboard.store.statements import read

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import psycopg

EDGES_S: tuple[float, ...] = (
    0.01,
    0.05,
    0.1,
    0.5,
    1.0,
    5.0,
    10.0,
    30.0,
    60.0,
    300.0,
    900.0,
    3600.0,
    14400.0,
)  # of both histograms

# A run may commit after this read with an earlier finished_at. One second is left for that.
_NOW: LiteralString = "select statement_timestamp() - interval '1 second'"
# Duration and lateness of the runs that succeeded, as in the SQL function run_facts.
_FINISHED: LiteralString = """
select status::text, namespace, queue, count(*) as runs,
       width_bucket(duration_s, %(edges)s::float8[]) as duration, coalesce(sum(duration_s), 0) as durations_s,
       width_bucket(lateness_s, %(edges)s::float8[]) as lateness, coalesce(sum(lateness_s), 0) as latenesses_s
  from (
    select status, queue, coalesce(split_part(schedule, '/', 1), '') as namespace,
           case when is_timed then greatest(date_part('epoch', finished_at - started_at), 0) end as duration_s,
           case when is_timed then greatest(date_part('epoch', started_at - due_at), 0) end as lateness_s
      from (select *, status = 'succeeded' and started_at > 'epoch' as is_timed,
                   case when trigger = 'tick' then run_at else greatest(run_at, created_at) end as due_at
              from wakeboard.job_run_history
             where finished_at > %(since)s and finished_at <= %(until)s) as past) as each
 group by status, namespace, queue, duration, lateness
"""


class FinishedRuns(NamedTuple):
    """Runs that ended alike. `namespace`: of their schedule; empty: they have none.

    `duration` and `lateness`: how many EDGES_S are not above them; None: they did not succeed. `…_s`: their sums.
    """

    status: str
    namespace: str
    queue: str
    runs: int
    duration: int | None
    durations_s: float
    lateness: int | None
    latenesses_s: float


class Finished(NamedTuple):
    """The runs that ended until `until`: succeeded, cancelled, skipped or dead (discarded)."""

    until: datetime
    groups: Sequence[FinishedRuns]

    @property
    def runs(self) -> Mapping[str, int]:
        """How many there are, by how they ended."""
        counts: Counter[str] = Counter()
        for group in self.groups:
            counts[group.status] += group.runs
        return counts


async def finished_since(conn: psycopg.AsyncConnection[Any], since: datetime | None) -> Finished:
    """The runs that ended after `since`; None: only returns the current time. Reads no older rows."""
    until: datetime = (await read(conn, scalar_row, _NOW))[0]
    if since is None:
        return Finished(until, [])
    values = {"since": since, "until": until, "edges": list(EDGES_S)}
    return Finished(until, await read(conn, class_row(FinishedRuns), _FINISHED, values))
