"""Read-only queries of limits: the limits in force, what files declare, and where the two differ.

Needs SELECT on the tables, which the viewer's and the operator's role have. The fields of the rows are public: they are
the keys of `--json`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, LiteralString

from psycopg.rows import class_row, tuple_row

from wakeboard.limits.rules.rate import Rate
from wakeboard.store.statements import read

if TYPE_CHECKING:
    import psycopg


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRow:
    """A limit key: how many of its runs may run at once, how many are running, and how many wait.

    `is_explicit`: an administrator set `max_running`; otherwise it is the default. `rate_count` runs may start each
    `rate_period_s` seconds, and `burst` of them after a pause; None: no rate limit. `next_start_s`: seconds until the
    rate limit, or a handler's pause, lets a run start.

    `declared_by`: the source whose file declares the key, the newest of several, with what it declares; None: none
    does. `differs_from`: the sources that declare another limit than the one in force.
    """

    key: str
    max_running: int
    is_explicit: bool
    rate_count: int | None = None
    rate_period_s: int | None = None
    burst: int | None = None
    next_start_s: float = 0.0
    running: int
    waiting: int
    declared_by: str | None = None
    declared_max_running: int | None = None
    declared_rate_count: int | None = None
    declared_rate_period_s: int | None = None
    declared_burst: int | None = None
    differs_from: list[str] = field(default_factory=list[str])

    @property
    def any_number(self) -> bool:
        """Whether only the rate limit bounds how many runs are running."""
        return self.rate_count is not None and not self.is_explicit

    @property
    def rate(self) -> Rate | None:
        """The rate limit."""
        return _rate(self.rate_count, self.rate_period_s)

    @property
    def declared_rate(self) -> Rate | None:
        """The rate limit that `declared_by` declares."""
        return _rate(self.declared_rate_count, self.declared_rate_period_s)

    @property
    def declared_text(self) -> str:
        """What `declared_by` declares: "60/minute, burst 10, 5 at once"."""
        rate, at_once = self.declared_rate, self.declared_max_running
        parts = [f"{rate}, burst {self.declared_burst}"] if rate else []
        return ", ".join([*parts, *([f"{at_once} at once"] if at_once is not None else [])])


def _rate(count: int | None, period_s: int | None) -> Rate | None:
    return None if count is None or period_s is None else Rate(count, period_s)


# Seconds until the rate limit of a row of job_limits, or a handler's pause, lets a run start: as in free_units.sql.
NEXT_START_S: LiteralString = """greatest(0,
         case when stored.paused_until <= statement_timestamp() + interval '1 day'
              then extract(epoch from stored.paused_until - statement_timestamp()) end,
         extract(epoch from wakeboard.advance_rate(stored, 0) - statement_timestamp())
           - (stored.rate_burst - 1) * 1e0 * stored.rate_period_s / stored.rate_count)::float8"""
_LIMITS: LiteralString = (
    """
select known.key, coalesce(stored.max_running, 1) as max_running, coalesce(stored.is_explicit, false) as is_explicit,
       stored.rate_count, stored.rate_period_s, stored.rate_burst as burst,
       """
    + NEXT_START_S
    + """ as next_start_s,
       (select count(*) from wakeboard.job_runs where limit_key = known.key and holds_slot)
         + (select count(*) from wakeboard.job_runs where shared_limit_key = known.key and holds_slot) as running,
       coalesce(waiting.runs, 0) as waiting,
       declared.source as declared_by, declared.max_running as declared_max_running,
       declared.rate_count as declared_rate_count, declared.rate_period_s as declared_rate_period_s,
       declared.rate_burst as declared_burst, coalesce(differing.sources, '{}') as differs_from
  from (select key::text from wakeboard.job_limits union select key::text from wakeboard.declared_limits) as known
  left join wakeboard.job_limits as stored using (key)
  left join lateral (
    select source, max_running, rate_count, rate_period_s, rate_burst
      from wakeboard.declared_limits as newest where newest.key = known.key
     order by newest.declared_at desc, newest.source limit 1) as declared on true
  left join lateral (
    select array_agg(source::text order by source) as sources from wakeboard.declared_limits as other
     where other.key = known.key
       and (other.max_running, other.rate_count, other.rate_period_s, other.rate_burst)
           is distinct from (case when stored.is_explicit then stored.max_running end, stored.rate_count,
                             stored.rate_period_s, stored.rate_burst)) as differing on true
  left join (
    select coalesce(shared_limit_key, limit_key)::text as key, count(*) as runs
      from wakeboard.job_runs
     where limit_key is not null and not holds_slot and dead_at is null
     group by 1) as waiting using (key)
 where strpos(known.key, ':') = 0  -- the keys of one schedule, for its concurrencyPolicy, and of one backfill
 order by known.key
"""
)


async def list_limits(conn: psycopg.AsyncConnection[Any]) -> list[LimitRow]:
    """All limit keys that have a row or are declared, by key."""
    return await read(conn, class_row(LimitRow), _LIMITS, {})


async def declared_limit_rows(conn: psycopg.AsyncConnection[Any], source: str) -> dict[str, dict[str, Any]]:
    """What `source` declares, by key: the rows of `declare_limits`."""
    query: LiteralString = """
        select key::text, jsonb_build_object('key', key, 'max_running', max_running, 'rate_count', rate_count,
                                             'rate_period_s', rate_period_s, 'rate_burst', rate_burst)
          from wakeboard.declared_limits where source = %(source)s order by key
    """
    return dict(await read(conn, tuple_row, query, {"source": source}))
