-- internal (called by release)
-- Subtracts crashes that were not crashes: `reap` has counted one for a lease of `worker`, but the worker is alive and releases that lease,
-- because the database could not be reached ('disconnected') or no handler had started ('not_started'). A run that the crash made dead is
-- queued again, and keeps the error of a later crash. With 'disconnected', a run that was released four times keeps its crash: it may
-- itself cause the disconnects. Returns the runs of which a crash was subtracted.

create or replace function wakeboard.uncount_crashes(worker bigint, ids bigint[], epochs bigint[], reasons text[])
returns bigint[] language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off set jit = off
as $$
declare
  uncounted bigint[];
begin
  with survived as (
    select run.id, run.definition_id, given.epoch, given.reason = 'disconnected' as counted,
           run.error_type = 'WorkerCrashed' and not exists (
             select from job_attempts as later
              where later.run_id = run.id and later.lease_epoch > given.epoch and later.outcome = 'crashed') as has_its_error
      from unnest(ids, epochs, reasons) as given (id, epoch, reason)
      join job_attempts as past on past.run_id = given.id and past.lease_epoch = given.epoch
      join job_runs as run on run.id = given.id
     where past.locked_by = uncount_crashes.worker and past.outcome = 'crashed'
       and (given.reason = 'not_started' or given.reason = 'disconnected' and run.release_count < 4)
     order by run.id
       for no key update of run, past skip locked
  ), recorded as (
    update job_attempts as past
       set outcome = 'released', error_type = null, error = 'the database could not be reached', died = false
      from survived
     where past.run_id = survived.id and past.lease_epoch = survived.epoch
  ), noted as (
    insert into definition_changes (definition_id) select distinct definition_id from survived where definition_id is not null
  ), updated as (
    update job_runs as run
       set crash_count = greatest(0, crash_count - 1), release_count = release_count + survived.counted::integer,
           status = case when run.status = 'dead' and run.lease_epoch = survived.epoch + 1 then 'queued' else run.status end,
           dead_at = case when run.lease_epoch = survived.epoch + 1 then null else run.dead_at end,
           error_type = case when has_its_error then null else run.error_type end,
           last_error = case when has_its_error then null else run.last_error end
      from survived
     where run.id = survived.id
  )
  select array_agg(id) into uncounted from survived;
  if uncounted is not null then
    perform pg_notify('wakeboard', '');
  end if;
  return uncounted;
end
$$;
