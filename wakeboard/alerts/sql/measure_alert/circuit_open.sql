-- - circuitOpen: schedules that create no runs because their runs died one after another (suspend_after_dead);

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
