-- internal (called by cancel_backfill and continue_backfills)
-- Marks a backfill as cancelled: no further tick of it becomes a run. The caller has locked the backfill, and cancels runs.

create or replace function wakeboard.end_backfill(backfill bigint)
returns void language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
  job backfills;
begin
  update backfills set cancelled_at = statement_timestamp(), finished_at = statement_timestamp(), paused_at = null
   where id = backfill returning * into job;
  delete from backfill_ticks where definition_id = job.definition_id and backfill_id = job.id and run_id is null;
  update job_limits set max_running = job.at_once where key = 'backfill:' || job.id;           -- for dead runs that someone retries
end
$$;
