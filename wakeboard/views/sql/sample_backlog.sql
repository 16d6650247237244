-- internal (called by roll_up)
-- Records how many runs are due and wait in this minute, at most 100,000 of each queue and priority, and as many that wait for a limit key.
-- A minute that has a sample keeps it.

create or replace function wakeboard.sample_backlog(present timestamptz)
returns void language plpgsql security definer
set enable_seqscan = off set enable_sort = off set jit = off set plan_cache_mode = force_custom_plan
as $$
declare
  this_minute constant timestamptz := date_bin('1 minute', present, 'epoch');
  a_scan constant integer := 100000;
begin
  if exists (select from backlog_samples where sampled_at = this_minute) then
    return;
  end if;
  insert into backlog_samples (sampled_at, due)
  with recursive live (queue) as (
    (select run.queue::text from job_runs as run
      where run.limit_key is null and run.crash_count < 2 and run.dead_at is null order by run.queue limit 1)
    union all
    select (select run.queue::text from job_runs as run
             where run.queue > live.queue and run.limit_key is null and run.crash_count < 2 and run.dead_at is null
             order by run.queue limit 1)
      from live where live.queue is not null
  )
  select this_minute, (
    select count(*)
      from live cross join generate_series(1, 5) as level (priority)
     cross join lateral (
       select locked_by from job_runs
        where queue = live.queue and priority = level.priority
          and limit_key is null and crash_count < 2 and dead_at is null and run_at <= present
        order by run_at, id limit a_scan) as run
     where live.queue is not null and run.locked_by = 0
    ) + (
    select count(*)
      from (select from job_runs
             where limit_key is not null and not holds_slot and crash_count < 2 and dead_at is null and run_at <= present
             limit a_scan) as run)
  on conflict do nothing;
end
$$;
