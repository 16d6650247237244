-- internal (called by unschedule and unschedule_all)
-- Cancels the waiting runs of these schedules of applications, which have removed themselves after their last ticks. Raises 55P03 if
-- another transaction keeps one of them locked for 2 seconds.

create or replace function wakeboard.cancel_last_runs(ids bigint[])
returns void language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
set lock_timeout = '2s'
as $$
begin
  perform remove_definitions('app', ids);
  perform refuse_locked_schedule(ids)
    where exists (select from job_runs as run where run.definition_id = any (ids) and run.status in ('queued', 'failed'));
  update job_definitions as def set success_due_at = null, success_missed_at = null where def.id = any (ids);
end
$$;
