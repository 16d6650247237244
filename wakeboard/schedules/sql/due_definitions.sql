-- for: worker, operator
-- Returns schedules whose next tick is due, with all that is needed to compute their ticks: up to `count` after the scan position
-- (after_run_at, after_id), most overdue first. Takes no lock. Paused schedules are left out. `now` is the database's clock: compute ticks
-- against it and no other clock. One whose `cron_fields` are null must be compiled
-- from `schedule`, `starts_at`, `ends_at` and `name` (namespace/name); its ticks are those after `next_run_at`, and a single moment may be
-- before it. Of a schedule that was edited since its last ticks were handled, `schedule` is a JSON array of its times (former_timings, and
-- then the present ones).
-- Example:
--   select id, next_run_at from wakeboard.due_definitions();

create or replace function wakeboard.due_definitions(
  count wakeboard.row_count default 10000, after_run_at wakeboard.scan_time default '-infinity', after_id wakeboard.scan_id default 0)
returns table (
  id bigint, generation bigint, next_run_at timestamptz, last_tick_at timestamptz, cron_fields text, time_zone text, dst_gap text,
  dst_overlap text, catch_up text, catch_up_limit integer, starting_deadline_s integer, paused boolean, schedule text,
  starts_at timestamptz, ends_at timestamptz, name text, now timestamptz)
language sql stable security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
set lock_timeout = '2s'
as $$
  select id, generation, next_run_at, last_tick_at, case when former_timings is null then cron_fields end, time_zone, dst_gap, dst_overlap,
         catch_up, catch_up_limit, starting_deadline_s,
         false,
         case when former_timings is null then schedule else due_times(def) end, starts_at, ends_at, namespace || '/' || name,
         statement_timestamp()
    from due_schedules(statement_timestamp(), count, after_run_at, after_id) as due
    join job_definitions as def using (id, next_run_at)
   order by next_run_at, id
$$;
