-- for: operator
-- Ends the pause of a backfill. False: it is not paused, or there is none. Otherwise it writes an audit row (see Audit).
-- Raises 55P03 if another transaction has locked the schedule or a run: nothing was done, try again.
-- Example:
--   select wakeboard.resume_backfill(1);

create or replace function wakeboard.resume_backfill(
  backfill wakeboard.backfill_number, reason text default '', actor text default null, source wakeboard.acting_program default 'sql')
returns boolean language plpgsql security definer
set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  job backfills;
  policy text;
  checked_actor audit_actor := coalesce(actor, session_user);
  checked_source audit_source := source;
begin
  perform require_read_committed('resume_backfill');
  update backfills set paused_at = null where id = backfill and paused_at is not null returning * into job;
  if not found then
    return false;
  end if;
  select concurrency_policy into policy from job_definitions where id = job.definition_id for share;
  update job_limits set max_running = job.at_once where key = 'backfill:' || job.id;
  perform lock_runs(array(select unfinished_backfill_runs(job.id)));
  update job_runs as run set limit_key = 'schedule:' || job.definition_id
   where run.id in (select unfinished_backfill_runs(job.id)) and policy <> 'Allow';
  perform create_backfill_runs(job.id);
  insert into audit_log (actor, source, action, definition_id, schedule, scope, reason, detail)
  values (checked_actor, checked_source, 'resume_backfill', job.definition_id, job.schedule, 'backfill:' || job.id,
          coalesce(left(resume_backfill.reason, 200), ''), jsonb_build_object('total', job.total, 'created', job.created));
  perform pg_notify('wakeboard', '');
  return true;
exception when lock_not_available then
  perform refuse_locked();
end
$$;
