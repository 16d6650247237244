-- - failures: attempts that failed, timed out or crashed within `span`, of the newest 10,000;

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
