-- internal (called by fetch_runs)
-- When the oldest unleased quarantined run of these queues and job types became due; null: there is none. A busy worker that finds one
-- older than a minute stops claiming until it can run that one alone.

create or replace function wakeboard.quarantined_since(
  queues text[], job_types text[], max_timeout_s integer default 2678400)
returns timestamptz language sql stable security definer
set enable_seqscan = off set enable_bitmapscan = off set lock_timeout = '1s'
as $$
  select run_at
    from job_runs
   where crash_count >= 2 and dead_at is null and locked_by = 0 and run_at <= statement_timestamp()
     and queue = any (queues) and job_type = any (job_types) and timeout_s <= max_timeout_s
     and not exists (select from pauses where scope in ('all', 'queue:' || job_runs.queue))
   order by run_at
   limit 1
$$;
