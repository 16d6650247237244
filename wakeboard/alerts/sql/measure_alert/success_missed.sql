-- - successMissed: schedules whose ticks have not succeeded within the time that they expect (expect_success_within_s);

return query
with found as (
  select def.namespace || '/' || def.name as name, def.success_missed_at
    from job_definitions as def
   where def.success_missed_at is not null and not def.suspended
     and not exists (select from pauses where scope in ('all', 'queue:' || def.queue, 'schedule:' || def.id) offset 0)
     and (queue_pattern is null or def.queue like queue_pattern)
     and (job_type_pattern is null or def.job_type like job_type_pattern)
     and (schedule_pattern is null or def.namespace || '/' || def.name like schedule_pattern)
   limit a_scan
)
select (select count(*) from found)::double precision, array(select name from found order by success_missed_at desc, name limit 5);
