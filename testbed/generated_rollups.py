"""Figures of runs that never were: rows of run_rollups, as if the maintenance had counted a long history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import psycopg

# A job type has runs of some ms to minutes; each third one fails now and then; the hours of the night are quiet,
# but not their minutes, because tests read the last ones.
_ROWS: Final = """
with each as (
  select grain, at, dimension, n, name, (abs(hashint8(extract(epoch from at)::bigint + n)) %% 100) / 100.0 as dice,
         case grain when 'minute' then 3 when 'hour' then 120 else 2600 end as size
    from (values ('minute', interval '1 minute', interval '25 hours', array['all', 'job_type', 'queue']),
                 ('hour', interval '1 hour', interval '8 days', array['all', 'job_type', 'queue', 'schedule', 'step']),
                 ('day', interval '1 day', make_interval(days => %(days)s),
                  array['all', 'job_type', 'queue', 'schedule', 'step'])) as grains (grain, step, back, dimensions)
   cross join lateral generate_series(date_bin(step, now() - back, 'epoch'), now() - step, step) as at
   cross join lateral unnest(dimensions) as dimension
   cross join lateral (
     select n, case dimension when 'all' then '' when 'job_type' then 'type' || n when 'queue' then 'queue' || n
                              when 'schedule' then n::text else 'type1 step' || n end as name
       from generate_series(1, case dimension when 'all' then 1 when 'job_type' then %(job_types)s else 5 end) as n
   ) as names
), sized as (
  select *, floor(size * dice * (case when n %% 7 = 6 then 0 else 1 end) * case dimension when 'all' then 20 else 1 end
                  * (case when extract(hour from at) < 5 and grain = 'hour' then 0 else 1 end))::bigint as runs
    from each
)
insert into wakeboard.run_rollups
select grain::wakeboard.rollup_grain, at, dimension::wakeboard.rollup_dimension, name, runs,
       case when dice > 0.9 then runs / 30 else 0 end, case when dice > 0.8 then runs / 20 else 0 end, 0,
       case when n %% 3 = 1 then (runs * (0.02 + 0.3 * greatest(dice - 0.85, 0)))::bigint else 0 end,
       case when dice > 0.97 then runs / 50 else 0 end, 0,
       case when n %% 3 = 1 and dice > 0.93 then runs / 40 + 1 else 0 end,
       buckets, counts, array(select (each / 2)::smallint from unnest(buckets) as each), counts
  from sized cross join lateral (
    select array_agg((12 + 2 * n %% 40 + b * 2 + round(2 * sin(extract(epoch from at) / 9000)))::smallint) as buckets,
           array_agg(greatest(1, runs / 20) * (21 - b)) as counts
      from generate_series(0, 19) as b) as histogram
 where runs > 0
"""
_COUNTED: Final = """
update wakeboard.rollup_progress
   set counted_until = date_bin('1 minute', now(), 'epoch'), days_until = date_bin('1 day', now(), 'epoch'),
       checked_until = date_bin('1 hour', now(), 'epoch'), verified_until = date_bin('1 hour', now(), 'epoch')
"""


def generate_rollups(conn: psycopg.Connection[Any], *, days: int = 3, job_types: int = 5) -> None:
    """Rows of so many days until now, of job types type1, type2, … and queues queue1 to queue5."""
    conn.execute(_ROWS, {"days": days, "job_types": job_types})
    conn.execute(_COUNTED)
    conn.execute("analyze wakeboard.run_rollups")
