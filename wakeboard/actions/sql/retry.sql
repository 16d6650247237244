-- for: operator
-- Queues dead or failed runs again, due now, with attempts and crashes at 0 and the same uuid: finished effects and steps are not repeated.
-- A run of a paused backfill waits until that is resumed.
-- The answer for each id: 'queued' or 'refused: …'. Writes an audit row for each run that it changes (see Audit).
-- Example:
--   select * from wakeboard.retry('{1}');

create or replace function wakeboard.retry(
  ids wakeboard.id_array, reason text default '', actor wakeboard.audit_actor default null, source wakeboard.acting_program default 'sql',
  bulk_action_id bigint default null)
returns table (id bigint, answer text) language plpgsql security definer
set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  mine bigint[] := lock_runs(ids);
begin
  perform require_read_committed('retry');
  perform wait_for_standby();
  perform audit_runs('retry', mine, '{dead, failed}', 'queued', reason, actor, source, bulk_action_id);
  return query                               -- in a snapshot from after the locks
  with again as (
    update job_runs as run
       set status = 'queued', attempts = 0, crash_count = 0, release_count = 0, run_at = statement_timestamp(), dead_at = null,
           cancel_requested_at = null, cancel_reason = null,
           limit_key = case when run.trigger <> 'backfill' then run.limit_key
                            else coalesce((select 'backfill:' || job.id        -- it waits until the backfill is resumed
                                             from backfill_ticks as item join backfills as job on job.id = item.backfill_id
                                            where item.run_id = run.id and job.paused_at is not null and job.finished_at is null),
                                            run.limit_key) end
     where run.id = any (mine) and run.status in ('dead', 'failed')
    returning run.definition_id
  ), noted as (
    insert into definition_changes (definition_id)
    select definition_id from again where definition_id is not null
    union
    -- their status names the run
    select edge.definition_id from again join schedule_dependencies as edge on edge.parent_id = again.definition_id
  )
  select wanted.id,
         case when run.id is not null and run.id <> all (mine) then 'refused: another transaction has locked the run; try again'
              when run.status in ('dead', 'failed') then 'queued'
              when run.status is not null then 'refused: the run is ' || run.status::text
              when past.status is not null then
                'refused: the run is finished (' || past.status::text || '); replay makes a new run from it'
              else 'refused: there is no such run' end
    from (select distinct unnest(ids)) as wanted (id)
    left join job_runs as run on run.id = wanted.id
    left join lateral (select status from job_run_history where job_run_history.id = wanted.id limit 1) as past on run.id is null
   order by 1;
  perform pg_notify('wakeboard', '');
exception when lock_not_available then
  perform refuse_locked();
end
$$;
