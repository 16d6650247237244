"""What the first page of the board shows: counts of live runs, dead runs by cause, workers by pool, and problems.

Each read is bounded: of each (queue, priority) at most SCAN_LIMIT runs are read, so a count may be a lower bound. All
reads take the namespaces that the viewer may see; None: all, and runs without a schedule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, LiteralString

from psycopg.rows import class_row

from wakeboard.store.statements import read
from wakeboard.text.humanize import counted_at_least
from wakeboard.views.queries.listings import DUE_SINCE, LIVE_QUEUES

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    import psycopg

SCAN_LIMIT: Final = 2_000  # runs of one (queue, priority)
COUNT_LIMIT: Final = 10_000  # limited and dead runs


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveCounts:
    """Live runs. `at_least`: a count reached its bound, so there may be more. Dead runs are not counted here.

    `due`: queued and due, not limited by a key. `waiting_for_slot`: queued with a shared key. `later`: queued and not
    yet due. `failed`: waiting for the next attempt.
    """

    now: datetime
    due: int
    oldest_due: datetime | None
    running: int
    failed: int
    later: int
    waiting_for_slot: int
    quarantined: int
    at_least: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadGroup:
    """Dead runs with the same job type and error type, among the newest 10,000. `example_id`: the newest of them.

    `more`: there may be more, because there are more than 10,000 dead runs.
    """

    job_type: str
    error_type: str
    runs: int
    newest: datetime
    example_id: int
    example_error: str | None
    more: bool = False

    @property
    def runs_text(self) -> str:
        """How many runs: "3 dead runs", "9,997+ dead runs"."""
        return counted_at_least(self.runs, "dead run", more=self.more)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRow:
    """A pool with workers now or in the last hour. `capacity`: how many runs its workers execute at once, together.

    `wakes`: when the workers that ended in the last hour started, oldest first.
    """

    pool: str
    workers: int
    capacity: int
    last_seen: datetime
    versions: list[str]
    queues: list[str]
    wakes: list[datetime]


_VISIBLE: LiteralString = "(%(namespaces)s::text[] is null or split_part(run.schedule, '/', 1) = any (%(namespaces)s))"

_COUNTS: LiteralString = f"""
{LIVE_QUEUES}, pairs as (
  select live.queue, level.priority from live cross join generate_series(1, 5) as level (priority)
   where live.queue is not null
), scanned as (
  select run.*, count(*) over (partition by pairs.queue, pairs.priority) as read
    from pairs
   cross join lateral (
     select status, locked_by, run_at, schedule, {DUE_SINCE} as due_since
       from wakeboard.job_runs
      where job_runs.queue = pairs.queue and job_runs.priority = pairs.priority
        and limit_key is null and crash_count < 2 and dead_at is null
      order by run_at, id
      limit %(scan_limit)s) as run
), limited as (
  select {DUE_SINCE} as due_since, strpos(coalesce(shared_limit_key, limit_key)::text, ':') = 0 as is_shared
    from wakeboard.job_runs as run
   where limit_key is not null and not holds_slot and crash_count < 2 and dead_at is null
     and run_at <= statement_timestamp() and {_VISIBLE}
   limit %(count_limit)s
), slots as (
  select 1 from wakeboard.job_runs as run where holds_slot and {_VISIBLE} limit %(count_limit)s
), quarantined as (
  select run.locked_by from wakeboard.job_runs as run where crash_count >= 2 and dead_at is null and {_VISIBLE}
   limit %(count_limit)s
)
select statement_timestamp() as now,
       count(*) filter (where locked_by = 0 and status = 'queued' and run_at <= statement_timestamp()) as due,
       least(min(due_since) filter (where locked_by = 0 and run_at <= statement_timestamp()),
             (select min(due_since) from limited)) as oldest_due,
       count(*) filter (where locked_by <> 0) + (select count(*) from slots)
         + (select count(*) from quarantined where locked_by <> 0) as running,
       count(*) filter (where status = 'failed') as failed,
       count(*) filter (where status = 'queued' and run_at > statement_timestamp()) as later,
       (select count(*) from limited where is_shared) as waiting_for_slot,
       (select count(*) from quarantined where locked_by = 0) as quarantined,
       coalesce(bool_or(read = %(scan_limit)s), false) or (select count(*) from limited) = %(count_limit)s as at_least
  from scanned as run
 where {_VISIBLE}
"""

_DEAD: LiteralString = f"""
select job_type::text, coalesce(error_type, 'unknown') as error_type, count(*) as runs, max(dead_at) as newest,
       (array_agg(id order by dead_at desc))[1] as example_id,
       (array_agg(last_error order by dead_at desc))[1] as example_error, bool_or(read = %(count_limit)s) as more
  from (select *, count(*) over () as read
          from (select * from wakeboard.job_runs as run where dead_at is not null and {_VISIBLE}
                 order by dead_at desc limit %(count_limit)s) as bounded) as newest
 group by 1, 2
 order by runs desc, job_type, error_type
 limit 50
"""

_POOLS: LiteralString = """
with live as (
  select pool, count(*) as workers, sum(capacity)::integer as capacity, max(last_seen) as last_seen,
         array_agg(distinct version) as versions,
         array(select distinct unnest(queues) from wakeboard.workers as other
                where other.pool = workers.pool order by 1) as queues
    from wakeboard.workers
   where last_seen > statement_timestamp() - interval '3 minutes'
   group by pool
), past as (
  select pool, max(ended_at) as ended_at, array_agg(started_at order by started_at) as wakes
    from (select pool, started_at, ended_at from wakeboard.past_workers
           where ended_at > statement_timestamp() - interval '1 hour'
           order by ended_at desc limit 6000) as newest
   group by pool
)
select pool, coalesce(workers, 0) as workers, coalesce(capacity, 0) as capacity,
       coalesce(last_seen, ended_at) as last_seen, coalesce(versions, '{}') as versions,
       coalesce(queues, array(select distinct queue from wakeboard.worker_types as known where known.pool = past.pool
                               order by 1)) as queues,
       coalesce(wakes, '{}') as wakes
  from live full join past using (pool)
 order by pool
 limit 100
"""


class OverviewQueries:
    """The reads of the first page, over one connection."""

    def __init__(self, conn: psycopg.AsyncConnection[Any], namespaces: Collection[str] | None) -> None:
        self._conn = conn
        self._values = {
            "namespaces": None if namespaces is None else sorted(namespaces),
            "scan_limit": SCAN_LIMIT,
            "count_limit": COUNT_LIMIT,
        }

    async def counts(self) -> LiveCounts:
        """Counts of live runs."""
        return (await read(self._conn, class_row(LiveCounts), _COUNTS, self._values))[0]

    async def dead(self) -> list[DeadGroup]:
        """The newest dead runs by job type and error type, the largest group first."""
        return await read(self._conn, class_row(DeadGroup), _DEAD, self._values)

    async def pools(self) -> list[PoolRow]:
        """Pools with workers now or in the last hour."""
        return await read(self._conn, class_row(PoolRow), _POOLS)
