-- - durationOver: how many times the usual duration (the quantile `share` of its job type in the last 7 days, of 20 runs or more) the
--   longest run took that runs now or succeeded within `span` (at most 40,000 of them are read), if that is a second or more;

return query
with counted as (
  select past.name, past.duration_buckets, past.duration_counts
    from rollup_progress cross join run_rollups as past
   where past.grain = 'day' and past.dimension = 'job_type'
     and past.starts_at >= present - interval '7 days' and past.starts_at < days_until
  union all
  select past.name, past.duration_buckets, past.duration_counts
    from rollup_progress cross join run_rollups as past
   where past.grain = 'hour' and past.dimension = 'job_type'
     and past.starts_at >= greatest(days_until, present - interval '7 days')
), histogram as (
  select counted.name, each.bucket, sum(each.count) as count
    from counted cross join lateral unnest(duration_buckets, duration_counts) as each (bucket, count)
   where job_type_pattern is null or counted.name like job_type_pattern
   group by 1, 2
), usual as (
  select name, 2 ^ (min(bucket) / 8.0) / 1000 as duration_s
    from (select name, bucket, sum(count) over (partition by name order by bucket) as up_to,
                 sum(count) over (partition by name) as total
            from histogram) as cumulated
   where up_to >= share * total and total >= 20
   group by name
), live (queue) as (
  select distinct served from workers cross join lateral unnest(queues) as served
), ran as (
  select run.id, run.job_type, run.queue, run.schedule, extract(epoch from present - run.started_at) as took_s
    from live cross join generate_series(1, 5) as level (priority)
   cross join lateral (
     select job_runs.id, job_runs.job_type::text, job_runs.queue::text, job_runs.schedule, job_runs.started_at, job_runs.locked_by
       from job_runs
      where job_runs.queue = live.queue and job_runs.priority = level.priority
        and limit_key is null and crash_count < 2 and dead_at is null and run_at <= present
      order by run_at, id limit a_scan) as run
   where run.locked_by <> 0
  union all
  (select run.id, run.job_type::text, run.queue::text, run.schedule, extract(epoch from present - run.started_at)
     from job_runs as run where run.holds_slot limit a_scan)
  union all
  (select past.id, past.job_type, past.queue, past.schedule, extract(epoch from past.finished_at - past.started_at)
     from job_run_history as past
    where past.finished_at >= since and past.status = 'succeeded' and past.started_at > 'epoch' limit a_scan * 4)
), slow as (
  select format('run %s of %s took %s s', ran.id, coalesce(ran.schedule, ran.job_type), round(ran.took_s)) as name,
         ran.took_s / usual.duration_s as times
    from ran join usual on usual.name = ran.job_type
   where ran.took_s >= 1
     and (queue_pattern is null or ran.queue like queue_pattern)
     and (schedule_pattern is null or ran.schedule like schedule_pattern)
)
select coalesce((select max(times) from slow), 0)::double precision,
       array(select name from slow order by times desc, name limit 5);
