-- - dead: runs that are dead, with a `span` only those that became dead within it; at most 10,001 are counted;

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
