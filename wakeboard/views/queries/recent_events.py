"""The queries that `wakeboard up` polls: recent events of runs, and due runs.

They need SELECT on the tables. `recent_events` reads all live runs and the newest partitions of the history, so
poll it less often on a large database.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, LiteralString

from psycopg.rows import scalar_row, tuple_row

from wakeboard.store.statements import read
from wakeboard.views.queries.listings import Listings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

MAX_EVENTS: Final = 200  # per part of the query


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent:
    """An event of a run.

    `kind`: started (and still running); failed, timed_out or crashed (one attempt); dead, succeeded, cancelled, skipped
    or discarded. `next_attempt_at`: only after a failed attempt that will be retried. `ticks`: the number of ticks that
    a skipped run covers.
    """

    kind: str
    at: datetime
    run_id: int
    lease_epoch: int
    schedule: str | None
    job_type: str
    attempt: int
    max_attempts: int
    started_at: datetime | None
    next_attempt_at: datetime | None
    error_type: str | None
    error: str | None
    reason: str | None
    ticks: int | None
    crashes: int

    @property
    def key(self) -> tuple[str, int, int]:
        """Identifies the event: two polls may return it twice."""
        return (self.kind, self.run_id, self.lease_epoch)


@dataclass(frozen=True, slots=True, kw_only=True)
class NextDue:
    """Whether a run or a tick is due, as of `at` by the database's clock."""

    due: bool
    at: datetime


_EVENTS: LiteralString = """
(select case when att.died then 'dead' else att.outcome end as kind, att.ended_at as at, att.run_id,
        att.lease_epoch, run.schedule, run.job_type, att.attempt, run.max_attempts, att.started_at,
        case when run.dead_at is null and run.run_at > att.ended_at then run.run_at end as next_attempt_at,
        coalesce(att.error_type, run.error_type) as error_type, coalesce(att.error, run.last_error) as error,
        null as reason, null as ticks, run.crash_count as crashes
   from wakeboard.job_attempts as att
  cross join lateral (
    select schedule, job_type::text, max_attempts::integer, run_at, dead_at, crash_count, error_type,
           last_error
      from wakeboard.all_runs where id = att.run_id limit 1) as run
  where att.ended_at > %(since)s
    and (att.outcome not in ('cancelled', 'snoozed', 'released') or att.died)     -- the history has cancellations
  order by att.ended_at desc limit %(count)s)
union all
(select case status when 'dead' then 'discarded' else status::text end, finished_at, id, lease_epoch, schedule,
        job_type, attempts, max_attempts, nullif(started_at, 'epoch'), null, error_type, last_error, reason,
        skipped_count, crash_count
   from wakeboard.job_run_history
  where finished_at > %(since)s
  order by finished_at desc limit %(count)s)
union all
(select 'started', started_at, id, lease_epoch, schedule, job_type, attempts, max_attempts, started_at, null, null,
        null, null, null, crash_count
   from wakeboard.job_runs
  where locked_by <> 0 and started_at > %(since)s
  order by started_at desc limit %(count)s)
 order by at, run_id
"""

# Due runs, and schedules whose next tick is due but not yet enqueued.
_DUE_SINCE: LiteralString = """
with lower_bound (moment) as materialized (
  select case when %(since)s::timestamptz is null then '-infinity'
              else greatest(%(since)s, statement_timestamp() - interval '5 s') end)
select exists (
         select from wakeboard.job_runs
          where queue = any (%(queues)s) and priority = any ('{1,2,3,4,5}')
            and run_at > (select moment from lower_bound) and run_at <= statement_timestamp()
            and locked_by = 0 and dead_at is null)
    or exists (
         select from wakeboard.job_definitions
          where removed_at is null and not suspended and schedule_error is null
            and next_run_at > (select moment from lower_bound) and next_run_at <= statement_timestamp()
            and queue = any (%(queues)s)) as due,
       statement_timestamp() as at
"""

# Counts what `_EVENTS` returns, however much of it there is.
_COUNTS: LiteralString = """
select status::text, count(*)
  from wakeboard.job_run_history
 where finished_at > %(since)s and status <> 'dead'                   -- discarded
 group by 1
union all
select 'dead', count(*) from wakeboard.job_runs where dead_at > %(since)s
union all
select 'failed', count(*)
  from wakeboard.job_attempts
 where ended_at > %(since)s and outcome in ('failed', 'timed_out')
   and not died
"""


class EventQueries(Listings):
    """The queries over one async connection. They raise WakeboardError."""

    async def recent_events(self, since: datetime) -> list[RunEvent]:
        """Returns events after `since`, oldest first. Each part of the query returns only its newest 200."""
        return await self._rows(RunEvent, _EVENTS, since=since, count=MAX_EVENTS)

    async def counts_since(self, since: datetime) -> dict[str, int]:
        """How many runs succeeded, are dead, were cancelled or skipped, and how many other attempts failed."""
        return dict(await read(self.conn, tuple_row, _COUNTS, {"since": since}))

    async def due_since(self, since: datetime | None, queues: Sequence[str]) -> NextDue:
        """Whether an unleased run or a tick of these queues became due after `since`; None: whether any is due.

        With `since`, at most the last five seconds are searched.
        """
        found = await self._rows(NextDue, _DUE_SINCE, since=since, queues=list(queues))
        return found[0]

    async def running(self, queues: Sequence[str]) -> int:
        """Returns how many runs of these queues are leased to a worker."""
        query: LiteralString = (
            "select count(*) from wakeboard.job_runs where locked_by <> 0 and queue = any (%(queues)s)"
        )
        return (await read(self.conn, scalar_row, query, {"queues": list(queues)}))[0]
