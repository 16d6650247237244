-- for: operator
-- Pauses 'all', 'queue:NAME' or 'schedule:ID' until `resume`. Runs of a paused queue are not claimed; a paused schedule creates no runs.
-- Runs that are running continue. After `resume`, catchUp decides about the missed ticks, as after any outage. False: it was paused already.
-- The first 200 characters of `reason` are stored. Writes an audit row unless it was paused already (see Audit).
-- Example:
--   select wakeboard.pause('queue:default', 'the mail server is being moved');

create or replace function wakeboard.pause(
  scope wakeboard.pause_scope, reason text default '', actor text default null, source wakeboard.acting_program default 'sql')
returns boolean language plpgsql security definer
set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  checked_actor audit_actor := coalesce(actor, session_user);
  checked_source audit_source := source;
begin
  if pause.scope like 'schedule:%'
     and not exists (select from job_definitions where id = substr(pause.scope, 10)::bigint and removed_at is null) then
    perform refuse_argument('scope', pause.scope, 'the id of a schedule that exists, from wakeboard.job_definitions');
  end if;
  insert into pauses (scope, reason) values (pause.scope, coalesce(left(pause.reason, 200), '')) on conflict do nothing;
  if not found then
    return false;
  end if;
  insert into definition_changes (definition_id)
  select id from job_definitions
   where removed_at is null and pause.scope in ('all', 'queue:' || queue, 'schedule:' || id);
  insert into audit_log (actor, source, action, scope, definition_id, schedule, reason)
  select checked_actor, checked_source, 'pause', pause.scope, def.id, def.namespace || '/' || def.name,
         coalesce(left(pause.reason, 200), '')
    from (values (true)) as one left join job_definitions as def on pause.scope = 'schedule:' || def.id;
  return true;
exception when lock_not_available then
  perform refuse_locked();
end
$$;
