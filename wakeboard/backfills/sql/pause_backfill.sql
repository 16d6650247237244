-- for: operator
-- Pauses a backfill until `resume_backfill`: no run of it starts, also no retry. Runs that are running continue; if the concurrencyPolicy of
-- the schedule is not Allow, also with their retries. False: it is paused already, has ended, or there is none. Otherwise it writes an audit
-- row (see Audit). Raises 55P03 if another transaction has locked a run of it: nothing was done, try again.
-- Example:
--   select wakeboard.pause_backfill(1, 'the bank is closed');

create or replace function wakeboard.pause_backfill(
  backfill wakeboard.backfill_number, reason text default '', actor text default null, source wakeboard.acting_program default 'sql')
returns boolean language plpgsql security definer
set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  job backfills;
  checked_actor audit_actor := coalesce(actor, session_user);
  checked_source audit_source := source;
begin
  perform require_read_committed('pause_backfill');
  update backfills set paused_at = statement_timestamp()
   where id = backfill and finished_at is null and paused_at is null returning * into job;
  if not found then
    return false;
  end if;
  insert into job_limits (key, max_running) values ('backfill:' || job.id, 0)
  on conflict on constraint job_limits_pkey do update set max_running = 0;
  perform lock_runs(array(select unfinished_backfill_runs(job.id)));
  update job_runs as run set limit_key = 'backfill:' || job.id
   where run.id in (select unfinished_backfill_runs(job.id)) and run.locked_by = 0 and run.limit_key like 'schedule:%';
  insert into audit_log (actor, source, action, definition_id, schedule, scope, reason, detail)
  values (checked_actor, checked_source, 'pause_backfill', job.definition_id, job.schedule, 'backfill:' || job.id,
          coalesce(left(pause_backfill.reason, 200), ''), jsonb_build_object('total', job.total, 'created', job.created));
  return true;
exception when lock_not_available then
  perform refuse_locked();
end
$$;
