-- for: worker, operator, viewer
-- The first `count` schedules, by next tick and id, whose next tick is due by `until`, behind the scan position (after_run_at, after_id).
-- Those that a pause holds are left out. Their ticks wait, so they are the first ones of the index for as long as the pause lasts: with a
-- paused queue the others are read queue by queue. Only schedules that are paused by themselves are passed over one by one.
-- Example:
--   select * from wakeboard.due_schedules(now(), 10);

create or replace function wakeboard.due_schedules(
  until wakeboard.scan_time, count wakeboard.row_count, after_run_at wakeboard.scan_time default '-infinity',
  after_id wakeboard.scan_id default 0)
returns table (id bigint, next_run_at timestamptz) language plpgsql stable security definer
set enable_seqscan = off set enable_bitmapscan = off set max_parallel_workers_per_gather = 0 set jit = off
set plan_cache_mode = force_generic_plan set lock_timeout = '2s'
as $$
#variable_conflict use_column
begin
  if exists (select from pauses where scope = 'all') then
    return;
  end if;
  if (select scope from pauses where scope > 'queue' order by scope limit 1) not like 'queue:%' is not false then     -- no queue is paused
    return query
    select def.id, def.next_run_at
      from job_definitions as def
     where def.removed_at is null and not def.suspended and def.schedule_error is null
       and def.next_run_at <= until and (def.next_run_at, def.id) > (after_run_at, after_id)
       and not exists (select from pauses where scope = 'schedule:' || def.id offset 0)
     order by def.next_run_at, def.id
     limit count;
    return;
  end if;
  return query
  with recursive used (queue) as (
    (select queue::text from job_definitions
      where removed_at is null and not suspended and schedule_error is null order by queue limit 1)
    union all
    select (select queue::text from job_definitions
             where removed_at is null and not suspended and schedule_error is null and queue > used.queue order by queue limit 1)
      from used where used.queue is not null
  )
  select due.id, due.next_run_at
    from used
   cross join lateral (
     select def.id, def.next_run_at
       from job_definitions as def
      where def.removed_at is null and not def.suspended and def.schedule_error is null and def.queue = used.queue
        and def.next_run_at <= until and (def.next_run_at, def.id) > (after_run_at, after_id)
        and not exists (select from pauses where scope = 'schedule:' || def.id offset 0)
      order by def.next_run_at, def.id
      limit count) as due
   where not exists (select from pauses where scope = 'queue:' || used.queue offset 0)
   order by due.next_run_at, due.id
   limit count;
end
$$;
