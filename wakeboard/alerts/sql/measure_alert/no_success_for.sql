-- - noSuccessFor: schedules that exist for longer than `span` and none of whose runs succeeded within it; it looks at 20,000 of
--   applications at most, and at as many declared ones;

declare
  -- A schedule that fails each minute has thousands of runs in the history, so the rollups answer for whole days.
  first_day constant timestamptz := date_bin('1 day', since, 'epoch') + interval '1 day';
  last_day constant timestamptz := greatest(first_day, (select days_until from rollup_progress));
begin
  return query
  with silent as (
    select def.namespace || '/' || def.name as name
      from (select distinct id from schedules_of_patterns(queue_pattern, job_type_pattern, schedule_pattern, a_scan * 2) as id) as found
      join job_definitions as def on def.id = found.id
     where def.removed_at is null and not def.suspended and def.schedule is not null and def.created_at <= since
       and (queue_pattern is null or def.queue like queue_pattern)
       and (job_type_pattern is null or def.job_type like job_type_pattern)
       and (schedule_pattern is null or def.namespace || '/' || def.name like schedule_pattern)
       and not exists (select from pauses where scope in ('all', 'queue:' || def.queue, 'schedule:' || def.id) offset 0)
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
end;
