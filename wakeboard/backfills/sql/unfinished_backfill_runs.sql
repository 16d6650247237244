-- internal (called by create_backfill_runs, pause, resume and cancel_backfill)
-- The ids of the unfinished runs of a backfill: at most 1,000, and those that were dead and are retried.

create or replace function wakeboard.unfinished_backfill_runs(backfill bigint)
returns setof bigint language plpgsql stable security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
begin
  return query
  select run.id
    from backfills as job
    join job_runs as run on run.definition_id = job.definition_id
   cross join lateral (select backfill_id from backfill_ticks where run_id = run.id limit 1) as item    -- never all ticks for each run
   where job.id = backfill and item.backfill_id = job.id and run.trigger = 'backfill' and run.status in ('queued', 'running', 'failed');
end
$$;
