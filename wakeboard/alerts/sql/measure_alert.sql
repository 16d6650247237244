-- for: worker, operator
-- Measures the condition of an alert rule now. `condition` and the value (0: nothing is wrong):
-- - failures: attempts that failed, timed out or crashed within `span`, of the newest 10,000;
-- - dead: runs that are dead, with a `span` only those that became dead within it; at most 10,001 are counted;
-- - late: for how many seconds the oldest due run has waited (an application's run at most since it was enqueued), or a tick has not been
--   enqueued, if that is longer than `span`;
-- - noSuccessFor: schedules that exist for longer than `span` and none of whose runs succeeded within it;
-- - backlog: due runs that wait, at most 100,000 of each queue and priority;
-- - durationOver: how many times the usual duration (the quantile `share` of its job type in the last 7 days, of 20 runs or more) the longest
--   run took that runs now or succeeded within `span` (at most 40,000 of them are read), if that is a second or more;
-- - circuitOpen: schedules that create no runs because their runs died one after another (suspend_after_dead);
-- - noWorker: for how many seconds no worker was seen, if a run has been due for longer than `span` (deliveries of alerts do not count).
-- Deliveries of alerts (wakeboard.alert) count for failures and dead only if job_type_pattern is this name, so that no alert feeds itself.
-- The patterns restrict it to runs of queues, job types and schedules (namespace/name), as in LIKE; null: all. Paused queues are not late.
-- `examples`: at most five, the most important first.
-- Example:
--   select * from wakeboard.measure_alert('failures', '1 hour', queue_pattern => 'billing');

create or replace function wakeboard.measure_alert(
  condition text, span interval default null, share double precision default 0.95,
  queue_pattern text default null, job_type_pattern text default null, schedule_pattern text default null)
returns table (value double precision, examples text[]) language plpgsql stable security definer
set enable_seqscan = off set jit = off set plan_cache_mode = force_custom_plan set lock_timeout = '1s'
as $$
#variable_conflict use_column
declare
  present constant timestamptz := statement_timestamp();
  since constant timestamptz := present - case when span between '0' and '3650 days' then span end;
  due_until constant timestamptz := case condition when 'backlog' then present else since end;
  a_scan constant integer := 10000;
  first_day timestamptz;
  last_day timestamptz;
begin
  if span not between '0' and '3650 days' then
    raise exception using errcode = '22023', message = format('span is %s; write an interval from 0 to 3650 days', span);
  end if;
  if condition = 'failures' then
    return query
    with failed as (
      select made.run_id, coalesce(made.error_type, made.outcome) as error
        from job_attempts as made
       where made.ended_at >= since and made.outcome in ('failed', 'timed_out', 'crashed')
       order by made.ended_at desc limit a_scan
    ), found as (
      select coalesce(run.schedule, run.job_type) as name, failed.error
        from failed cross join lateral (
          select live.job_type::text, live.queue::text, live.schedule from job_runs as live where live.id = failed.run_id
          union all
          select past.job_type, past.queue, past.schedule
            from job_run_history as past where past.id = failed.run_id and past.finished_at >= since
          limit 1) as run
       where (run.job_type <> 'wakeboard.alert' or job_type_pattern is not distinct from 'wakeboard.alert')
         and (queue_pattern is null or run.queue like queue_pattern)
         and (job_type_pattern is null or run.job_type like job_type_pattern)
         and (schedule_pattern is null or run.schedule like schedule_pattern)
    )
    select (select count(*) from found)::double precision,
           array(select format('%s: %s (%s)', name, error, count(*)) from found group by name, error
                  order by count(*) desc, name, error limit 5);

  elsif condition = 'dead' then
    return query
    with found as (
      select coalesce(run.schedule, run.job_type) as name, coalesce(run.error_type, 'no error') as error
        from job_runs as run
       where run.dead_at is not null and run.dead_at >= coalesce(since, '-infinity')
         and (run.job_type <> 'wakeboard.alert' or job_type_pattern is not distinct from 'wakeboard.alert')
         and (queue_pattern is null or run.queue like queue_pattern)
         and (job_type_pattern is null or run.job_type like job_type_pattern)
         and (schedule_pattern is null or run.schedule like schedule_pattern)
       limit a_scan + 1
    )
    select (select count(*) from found)::double precision,
           array(select format('%s: %s (%s)', name, error, count(*)) from found group by name, error
                  order by count(*) desc, name, error limit 5);

  elsif condition in ('late', 'backlog', 'noWorker') then
    return query
    with recursive live (queue) as (
      (select run.queue::text from job_runs as run
        where run.limit_key is null and run.crash_count < 2 and run.dead_at is null order by run.queue limit 1)
      union all
      select (select run.queue::text from job_runs as run
               where run.queue > live.queue and run.limit_key is null and run.crash_count < 2 and run.dead_at is null
               order by run.queue limit 1)
        from live where live.queue is not null
    ), scanned as (
      select run.*
        from live cross join generate_series(1, 5) as level (priority)
       cross join lateral (
         select job_runs.queue::text, job_runs.job_type::text, job_runs.schedule,
                case when trigger = 'tick' then run_at else greatest(run_at, created_at) end as due_since
           from job_runs
          where job_runs.queue = live.queue and job_runs.priority = level.priority
            and limit_key is null and crash_count < 2 and dead_at is null and run_at <= due_until
            -- Runs that do not count hide none: the limit is for those that do.
            and locked_by = 0 and (trigger = 'tick' or created_at <= due_until)
            and (job_type_pattern is null or job_type like job_type_pattern)
            and (schedule_pattern is null or schedule like schedule_pattern)
            and (condition <> 'noWorker' or job_type <> 'wakeboard.alert')     -- an operator delivers alerts, too
          order by run_at, id
          limit case condition when 'backlog' then a_scan * 10 else a_scan end) as run
       where live.queue is not null and (queue_pattern is null or live.queue like queue_pattern)
      union all
      (select run.queue::text, run.job_type::text, run.schedule,
              case when trigger = 'tick' then run_at else greatest(run_at, created_at) end
         from job_runs as run
        where run.limit_key is not null and not run.holds_slot and run.crash_count < 2 and run.dead_at is null and run.run_at <= due_until
          and run.locked_by = 0 and (run.trigger = 'tick' or run.created_at <= due_until)
          and (job_type_pattern is null or run.job_type like job_type_pattern)
          and (schedule_pattern is null or run.schedule like schedule_pattern)
          and (condition <> 'noWorker' or run.job_type <> 'wakeboard.alert')
        limit a_scan * 10)
    ), waiting as (
      select format('%s in queue %s', coalesce(run.schedule, run.job_type), run.queue) as name, run.due_since, 'run' as what
        from scanned as run
       where (queue_pattern is null or run.queue like queue_pattern)
         and (condition = 'backlog' or not exists (select from pauses where scope in ('all', 'queue:' || run.queue)))
      union all
      (select format('%s/%s is not scheduled', def.namespace, def.name), def.next_run_at, 'tick'
         from job_definitions as def
        where condition = 'late' and def.removed_at is null and not def.suspended and def.schedule_error is null
          and def.next_run_at <= since
          and (queue_pattern is null or def.queue like queue_pattern)
          and (job_type_pattern is null or def.job_type like job_type_pattern)
          and (schedule_pattern is null or def.namespace || '/' || def.name like schedule_pattern)
          and not exists (select from pauses where scope in ('all', 'queue:' || def.queue, 'schedule:' || def.id))
        order by def.next_run_at limit a_scan)
    ), seen (at) as (
      select greatest((select max(last_seen) from workers
                        where queue_pattern is null or exists (select from unnest(queues) as served where served like queue_pattern)),
                      (select max(last_known_at) from worker_types where queue_pattern is null or queue like queue_pattern),
                      (select created_at from installation))
    )
    select case condition when 'backlog' then (select count(*) from waiting)
                when 'late' then coalesce(extract(epoch from present - (select min(due_since) from waiting)), 0)
                else case when exists (select from waiting)
                          then greatest(0, extract(epoch from present - (select at from seen))) else 0 end
           end::double precision,
           array(select format('%s (%s)', name, count(*)) from waiting group by name order by min(due_since), name limit 5);

  elsif condition = 'noSuccessFor' then
    -- A schedule that fails each minute has thousands of runs in the history, so the rollups answer for whole days.
    first_day := date_bin('1 day', since, 'epoch') + interval '1 day';
    last_day := greatest(first_day, (select days_until from rollup_progress));
    return query
    with silent as (
      select def.namespace || '/' || def.name as name
        from job_definitions as def
       where def.removed_at is null and not def.suspended and def.schedule is not null and def.created_at <= since
         and (queue_pattern is null or def.queue like queue_pattern)
         and (job_type_pattern is null or def.job_type like job_type_pattern)
         and (schedule_pattern is null or def.namespace || '/' || def.name like schedule_pattern)
         and not exists (select from pauses where scope in ('all', 'queue:' || def.queue, 'schedule:' || def.id))
         and (select true from job_run_history as past                        -- `limit`: one lookup for each schedule
               where past.definition_id = def.id and past.finished_at >= last_day and past.status = 'succeeded' limit 1) is null
         and (select true from generate_series(first_day, last_day - interval '1 day', '1 day') as day (starts_at)
                join run_rollups as past on past.grain = 'day' and past.starts_at = day.starts_at and past.dimension = 'schedule'
                                        and past.name = def.id::text
               where past.succeeded > 0 limit 1) is null
         and (select true from job_run_history as past
               where past.definition_id = def.id and past.finished_at >= since and past.finished_at < first_day
                 and past.status = 'succeeded' limit 1) is null
       limit a_scan
    )
    select (select count(*) from silent)::double precision, array(select name from silent order by name limit 5);

  elsif condition = 'circuitOpen' then
    return query
    with found as (
      select def.namespace || '/' || def.name as name, def.circuit_opened_at
        from job_definitions as def
       where def.circuit_opened_at is not null and def.removed_at is null
         and (queue_pattern is null or def.queue like queue_pattern)
         and (job_type_pattern is null or def.job_type like job_type_pattern)
         and (schedule_pattern is null or def.namespace || '/' || def.name like schedule_pattern)
       limit a_scan
    )
    select (select count(*) from found)::double precision, array(select name from found order by circuit_opened_at, name limit 5);

  elsif condition = 'durationOver' then
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

  else
    raise exception using errcode = '22023', message = format(
      'condition is %s; write failures, dead, late, noSuccessFor, backlog, durationOver, noWorker or circuitOpen', to_json(left(condition, 60)));
  end if;
end
$$;
