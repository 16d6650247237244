-- for: operator
-- Returns those of the schedules `ids` whose next tick is due, as `due_definitions` does, but paused ones too (`paused`). Handle their due
-- ticks before an edit or a removal.
-- Example:
--   select id, next_run_at, paused from wakeboard.filter_due_definitions('{1, 2}');

create or replace function wakeboard.filter_due_definitions(ids wakeboard.id_array)
returns table (
  id bigint, generation bigint, next_run_at timestamptz, last_tick_at timestamptz, cron_fields text, time_zone text, dst_gap text,
  dst_overlap text, catch_up text, catch_up_limit integer, starting_deadline_s integer, paused boolean, schedule text,
  starts_at timestamptz, ends_at timestamptz, name text, now timestamptz)
language sql stable security definer
set enable_seqscan = off set enable_bitmapscan = off set jit = off set lock_timeout = '2s'
as $$
  select id, generation, next_run_at, last_tick_at, case when former_timings is null then cron_fields end, time_zone, dst_gap, dst_overlap,
         catch_up, catch_up_limit, starting_deadline_s,
         exists (select from pauses where scope in ('all', 'queue:' || def.queue, 'schedule:' || def.id)),
         case when former_timings is null then schedule else due_times(def) end, starts_at, ends_at, namespace || '/' || name,
         statement_timestamp()
    from (select * from job_definitions where id = any (ids) offset 0) as def     -- see enqueue_due_ticks
   where removed_at is null and not suspended and schedule_error is null and next_run_at <= statement_timestamp()
   order by next_run_at, id
$$;
