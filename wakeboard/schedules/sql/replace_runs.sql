-- internal (called by create_dependent_runs, enqueue_due_ticks, enqueue_former_tick and run_now)
-- Ends the unfinished runs of schedules whose concurrencyPolicy is Replace: cancels queued and failed ones now, and requests it of running
-- ones. Runs of backfills continue. A schedule of which another transaction has locked such a run is left as it is, so that its tick waits
-- for the next call. Returns those schedules, and the number of runs that were cancelled now.

create or replace function wakeboard.replace_runs(definitions bigint[])
returns table (locked bigint[], replaced integer) language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  old bigint[];
  over bigint[];
begin
  old := array(
    select id from job_runs
     where definition_id = any (definitions) and status in ('queued', 'running', 'failed') and trigger <> 'backfill'
     order by id
       for no key update skip locked);        -- an open `once` does not block it
  locked := array(
    select distinct definition_id from job_runs
     where definition_id = any (definitions) and status in ('queued', 'running', 'failed') and trigger <> 'backfill'
       and id <> all (old));
  if locked <> '{}' then
    old := array(select id from job_runs where id = any (old) and definition_id <> all (locked));
  end if;
  update job_runs as run set cancel_requested_at = coalesce(run.cancel_requested_at, statement_timestamp()),
                             cancel_reason = coalesce(run.cancel_reason, 'Replaced')
   where run.id = any (old) and run.status = 'running';
  select array_agg(id) into over from job_runs where id = any (old) and status <> 'running';
  perform finish_runs(over, 'cancelled', 'Replaced') where over is not null;
  replaced := coalesce(cardinality(over), 0);
  return next;
end
$$;
