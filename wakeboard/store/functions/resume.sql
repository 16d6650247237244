-- for: operator
-- Ends a pause. False: it was not paused. Otherwise it writes an audit row (see Audit).
-- Example:
--   select wakeboard.resume('queue:default');

create or replace function wakeboard.resume(
  scope wakeboard.pause_scope, reason text default '', actor text default null, source wakeboard.acting_program default 'sql')
returns boolean language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp
set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  ended pauses;
  checked_actor audit_actor := coalesce(actor, session_user);
  checked_source audit_source := source;
begin
  delete from pauses where scope = resume.scope returning * into ended;
  if not found then
    return false;
  end if;
  insert into definition_changes (definition_id)
  select id from job_definitions
   where removed_at is null and resume.scope in ('all', 'queue:' || queue, 'schedule:' || id);
  insert into audit_log (actor, source, action, scope, definition_id, schedule, reason, detail)
  select checked_actor, checked_source, 'resume', ended.scope, def.id, def.namespace || '/' || def.name,
         coalesce(left(resume.reason, 200), ''), jsonb_build_object('paused_at', ended.paused_at, 'pause_reason', ended.reason)
    from (values (true)) as one left join job_definitions as def on ended.scope = 'schedule:' || def.id;
  perform pg_notify('wakeboard', '');
  return true;
exception when lock_not_available then
  perform refuse_locked();
end
$$;
