-- internal (called by roll_up)
-- Writes rows of `run_rollups` for the period of `target` that begins at `period`. An hour (or a recount of it): adds what ended from
-- `since` until before `until`, and writes the minutes of that time if `by_minute`. A day: adds up its hours, for the names after
-- (after_dimension, after_name), up to (last_dimension, last_name). To repeat a day changes nothing.

create or replace function wakeboard.count_into_rollups(
  target wakeboard.rollup_grain, period timestamptz, since timestamptz, until timestamptz, by_minute boolean default false,
  after_dimension wakeboard.rollup_dimension default null, after_name text default null,
  last_dimension wakeboard.rollup_dimension default null, last_name text default null)
returns void language plpgsql security definer
set enable_nestloop = off set enable_mergejoin = off set jit = off set plan_cache_mode = force_custom_plan set work_mem = '64MB'
as $$
#variable_conflict use_column
declare
  steps_of_an_hour constant integer := 1000;     -- a handler may invent a name for each step
begin
  if by_minute then
    delete from run_rollups where grain = 'minute' and starts_at >= since and starts_at < count_into_rollups.until;
  end if;

  insert into run_rollups (
    grain, starts_at, dimension, name, succeeded, cancelled, skipped, discarded, failed, timed_out, crashed, died,
    duration_buckets, duration_counts, lateness_buckets, lateness_counts)
  with facts as materialized (
    select * from run_facts(since, count_into_rollups.until, by_minute) where target <> 'day'
  ), steps as (                                  -- those that have a row keep it
    select name, row_number() over (order by bool_or(known) desc, sum(count) desc, name) > steps_of_an_hour as beyond
      from (select job_type || ' ' || step as name, false as known, count from facts where step is not null
            union all
            select name, true, 0 from run_rollups
             where grain = target and starts_at = period and dimension = 'step' and name <> '' and target <> 'day') as each
     group by name
  ), named as (
    select 'all'::rollup_dimension as dimension, ''::text collate "C" as name, minute, measure, bucket, sum(count) as count
      from facts where step is null group by 3, 4, 5
    union all
    select 'job_type', job_type, minute, measure, bucket, sum(count)
      from facts where step is null and job_type is not null group by 2, 3, 4, 5
    union all
    select 'queue', queue, minute, measure, bucket, sum(count) from facts where step is null and queue is not null group by 2, 3, 4, 5
    union all
    select 'schedule', definition_id::text, null, measure, bucket, sum(count)
      from facts where step is null and definition_id is not null group by 2, 4, 5
    union all
    select 'step', case when beyond then '' else name end, null, measure, bucket, sum(count)
      from facts join steps on name = job_type || ' ' || step group by 2, 4, 5
  ), counted as (                                -- what the hour has; the hours of a day
    select * from run_rollups as hour
     where target <> 'day' and grain = target and starts_at = period
       and exists (select from named where named.dimension = hour.dimension and named.name = hour.name)
    union all
    select * from run_rollups
     where target = 'day' and grain = 'hour' and starts_at >= since and starts_at < count_into_rollups.until
       and (after_name is null or (dimension, name) > (after_dimension, after_name)) and (dimension, name) <= (last_dimension, last_name)
  ), cells as (
    select target as grain, period as starts_at, dimension, name, measure, bucket, count from named
    union all
    select 'minute', minute, dimension, name, measure, bucket, count from named where minute is not null
    union all
    select target, period, dimension, name, measure, null, count
      from counted cross join lateral (values
        ('succeeded', succeeded), ('cancelled', cancelled), ('skipped', skipped), ('discarded', discarded),
        ('failed', failed), ('timed_out', timed_out), ('crashed', crashed), ('died', died)) as each (measure, count)
     where count > 0
    union all
    select target, period, dimension, name, 'duration', bucket, count
      from counted cross join lateral unnest(duration_buckets, duration_counts) as each (bucket, count)
    union all
    select target, period, dimension, name, 'lateness', bucket, count
      from counted cross join lateral unnest(lateness_buckets, lateness_counts) as each (bucket, count)
  ), sums as (
    select grain, starts_at, dimension, name, measure, bucket, sum(count)::bigint as count from cells group by 1, 2, 3, 4, 5, 6
  )
  select grain, starts_at, dimension, name,
         coalesce(max(count) filter (where measure = 'succeeded'), 0),
         coalesce(max(count) filter (where measure = 'cancelled'), 0),
         coalesce(max(count) filter (where measure = 'skipped'), 0),
         coalesce(max(count) filter (where measure = 'discarded'), 0),
         coalesce(max(count) filter (where measure = 'failed'), 0),
         coalesce(max(count) filter (where measure = 'timed_out'), 0),
         coalesce(max(count) filter (where measure = 'crashed'), 0),
         coalesce(max(count) filter (where measure = 'died'), 0),
         array_agg(bucket order by bucket) filter (where measure = 'duration'),
         array_agg(count order by bucket) filter (where measure = 'duration'),
         array_agg(bucket order by bucket) filter (where measure = 'lateness'),
         array_agg(count order by bucket) filter (where measure = 'lateness')
    from sums group by 1, 2, 3, 4
  on conflict (grain, starts_at, dimension, name) do update
     set succeeded = excluded.succeeded, cancelled = excluded.cancelled, skipped = excluded.skipped, discarded = excluded.discarded,
         failed = excluded.failed, timed_out = excluded.timed_out, crashed = excluded.crashed, died = excluded.died,
         duration_buckets = excluded.duration_buckets, duration_counts = excluded.duration_counts,
         lateness_buckets = excluded.lateness_buckets, lateness_counts = excluded.lateness_counts;
end
$$;
