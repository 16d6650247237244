-- for: operator
-- Cancels runs. The answer for each id: 'cancelled' (the run was queued, or failed and waiting for a retry), 'requested' (the run is
-- running; its worker stops it at the next heartbeat, unless it succeeds first), or 'refused: …' (dead: discard it; finished; unknown).
-- The first 200 characters of `reason` are stored. Writes an audit row for each run that it changes (see Audit).
-- Example:
--   select * from wakeboard.cancel('{1, 2}');

create or replace function wakeboard.cancel(
  ids wakeboard.id_array, reason text default 'Cancelled',
  actor wakeboard.audit_actor default null, source wakeboard.acting_program default 'sql',
  bulk_action_id bigint default null)
returns table (id bigint, answer text) language plpgsql security definer
set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  busy constant bigint[] := lock_backfills(ids, wait => true);
  mine bigint[] := lock_runs(ids);
  waiting bigint[];
begin
  perform require_read_committed('cancel');
  perform wait_for_standby();
  if busy <> '{}' then                       -- a running one is only asked to stop
    mine := array(select run.id from job_runs as run
                   where run.id = any (mine) and (run.status not in ('queued', 'failed') or run.id <> all (busy)));
  end if;
  perform audit_runs('cancel', mine, '{queued, failed}', 'cancelled', nullif(reason, 'Cancelled'), actor, source, bulk_action_id);
  perform audit_runs('cancel', mine, '{running}', 'requested', nullif(reason, 'Cancelled'), actor, source, bulk_action_id);
  return query                               -- in a snapshot from after the locks
  with asked as (
    update job_runs as run set cancel_requested_at = coalesce(run.cancel_requested_at, statement_timestamp()),
                               cancel_reason = coalesce(run.cancel_reason, left(cancel.reason, 200))
     where run.id = any (mine) and run.status = 'running'
    returning run.definition_id
  ), noted as (
    insert into definition_changes (definition_id) select distinct definition_id from asked where definition_id is not null
  )
  select wanted.id,
         case when run.id is not null and run.id <> all (mine) then 'refused: another transaction has locked the run; try again'
              when run.status in ('queued', 'failed') then 'cancelled'
              when run.status = 'running' then 'requested'
              when run.status = 'dead' then 'refused: the run is dead; discard it'
              when past.status = 'succeeded' then 'refused: the run has succeeded'
              when past.status is not null then 'refused: the run has finished: ' || past.status::text
              else 'refused: there is no such run' end
    from (select distinct unnest(ids)) as wanted (id)
    left join job_runs as run on run.id = wanted.id
    left join lateral (select status from job_run_history where job_run_history.id = wanted.id limit 1) as past on run.id is null
   order by 1;

  select array_agg(run.id) into waiting from job_runs as run where run.id = any (mine) and run.status in ('queued', 'failed');
  perform finish_runs(waiting, 'cancelled', left(reason, 200)) where waiting is not null;
exception when lock_not_available then
  perform refuse_locked();
end
$$;
