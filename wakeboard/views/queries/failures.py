"""Failure rates and error types by job type.

The query needs SELECT on the tables; the viewer's and the operator's role have it. docs/monitoring.md has a shorter
query for other tools, and a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, LiteralString

from psycopg.rows import class_row

from wakeboard.engine.attempt_outcomes import FAILURES
from wakeboard.store.statements import read

if TYPE_CHECKING:
    from datetime import datetime

    import psycopg


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRow:
    """How the attempts of one job type ended in a period.

    `failure_rate`: share of failed, timed-out and crashed attempts among these and those that succeeded, 0 to 1; null
    if there are none. Snoozed and released attempts are not counted. `cancelled`: attempts that a cancellation ended;
    they count as neither. `dead`: runs that became dead in the period and still are. `errors`: number of attempts for
    each error type; a RetryAfter without a cause counts by its message, without numbers.
    """

    job_type: str
    failure_rate: float | None
    succeeded: int
    failed: int
    timed_out: int
    crashed: int
    cancelled: int
    dead: int
    errors: dict[str, int]
    last_failed_at: datetime | None
    last_error: str | None

    @property
    def failures(self) -> int:
        """Attempts that failed, timed out or crashed."""
        return self.failed + self.timed_out + self.crashed


_FAILURES: LiteralString = """
with ended as (
  select coalesce(live.job_type::text, past.job_type) as job_type, made.outcome, made.ended_at,
         case when made.outcome = 'cancelled' then null
              when made.error_type = 'RetryAfter'        -- without a cause: what it says, whatever its numbers are
              then 'RetryAfter: ' || regexp_replace(left(made.error, 100), '[0-9]+([.:][0-9]+)*', '#', 'g')
              else coalesce(made.error_type, made.outcome) end as error_type,
         made.error
    from wakeboard.job_attempts as made
    left join wakeboard.job_runs as live on live.id = made.run_id
    left join wakeboard.job_run_history as past on past.id = made.run_id and past.finished_at >= %(since)s
   where made.ended_at >= %(since)s and (made.outcome = any (%(failures)s) or made.outcome = 'cancelled')
  union all
  select job_type, 'succeeded', finished_at, null, null
    from wakeboard.job_run_history
   where status = 'succeeded' and finished_at >= %(since)s
  union all
  select job_type::text, 'dead', dead_at, null, null
    from wakeboard.job_runs
   where dead_at >= %(since)s
), errors as (
  select job_type, jsonb_object_agg(error_type, attempts) as errors
    from (select job_type, error_type, count(*) as attempts
            from ended
           where job_type is not null and error_type is not null
           group by 1, 2) as each
   group by 1
)
select job_type,
       round(1 - count(*) filter (where outcome = 'succeeded')
                 / nullif(count(*) filter (where outcome not in ('cancelled', 'dead')), 0)::numeric, 4)::float
         as failure_rate,
       count(*) filter (where outcome = 'succeeded') as succeeded,
       count(*) filter (where outcome = 'failed') as failed,
       count(*) filter (where outcome = 'timed_out') as timed_out,
       count(*) filter (where outcome = 'crashed') as crashed,
       count(*) filter (where outcome = 'cancelled') as cancelled,
       count(*) filter (where outcome = 'dead') as dead,
       coalesce((select errors from errors where errors.job_type = ended.job_type), '{}') as errors,
       max(ended_at) filter (where error_type is not null) as last_failed_at,
       (array_agg(error order by ended_at desc) filter (where error_type is not null))[1] as last_error
  from ended
 where job_type is not null and (%(job_type)s::text is null or job_type = %(job_type)s)
 group by job_type
 order by failure_rate desc nulls last, job_type
"""


async def failures_since(
    conn: psycopg.AsyncConnection[Any], since: datetime, job_type: str | None = None
) -> list[FailureRow]:
    """A row for each job type (or only `job_type`) of which an attempt ended since then; highest failure rate first."""
    return await read(
        conn, class_row(FailureRow), _FAILURES, {"since": since, "job_type": job_type, "failures": list(FAILURES)}
    )
