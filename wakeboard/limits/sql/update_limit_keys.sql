-- internal (called by edit_schedule and sync_definitions)
-- Sets the limit keys of all live runs of a schedule, running ones too. False: another transaction has locked one of the runs, and none was
-- changed. The caller has locked the schedule, so that no new run of it appears.

create or replace function wakeboard.update_limit_keys(definition bigint, own_key text, shared_key text)
returns boolean language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
declare
  mine bigint[] := array(select id from job_runs where definition_id = definition for no key update skip locked);
begin
  if (select count(*) from job_runs where definition_id = definition) > cardinality(mine) then
    return false;
  end if;
  update job_runs
     set limit_key = own_key, shared_limit_key = shared_key, holds_slot = own_key is not null and locked_by <> 0
   where id = any (mine) and trigger <> 'backfill' and (limit_key, shared_limit_key) is distinct from (own_key, shared_key);
  -- these wait in the queue of their backfill if it is paused, or if the schedule has no key of its own
  update job_runs as run
     set limit_key = case when own_key like 'schedule:%' and job.paused_at is null then own_key else 'backfill:' || job.id end,
         shared_limit_key = case when own_key like 'schedule:%' then shared_key else own_key end, holds_slot = locked_by <> 0
    from backfill_ticks as item join backfills as job on job.id = item.backfill_id
   where run.id = any (mine) and run.trigger = 'backfill' and item.run_id = run.id;
  return true;
end
$$;
