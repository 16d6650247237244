-- - late: for how many seconds the oldest due run has waited (an application's run at most since it was enqueued), or a tick has not been
--   enqueued, if that is longer than `span`;
-- - backlog: due runs that wait, at most 100,000 of each queue and priority;
-- - noWorker: for how many seconds no worker was seen, if a run has been due for longer than `span` (deliveries of alerts do not count).

declare
  due_until constant timestamptz := case condition when 'backlog' then present else since end;
begin
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
       and (condition = 'backlog' or not exists (select from pauses where scope in ('all', 'queue:' || run.queue) offset 0))
    union all
    (select format('%s/%s is not scheduled', def.namespace, def.name), def.next_run_at, 'tick'
       from due_schedules(since, a_scan * 10) as due
       join job_definitions as def using (id)
      where condition = 'late'
        and (queue_pattern is null or def.queue like queue_pattern)
        and (job_type_pattern is null or def.job_type like job_type_pattern)
        and (schedule_pattern is null or def.namespace || '/' || def.name like schedule_pattern)
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
end;
