-- for: operator
-- Acknowledges the changes of the server (server_changes) up to the id `newest` after which commits are missing or may be: `wakeboard
-- check`, the board, the conditions of JobSchedules and alerts report them no longer. Records a change that nothing has recorded yet.
-- Returns how many it acknowledged; if any, it writes an audit row (see Audit).
-- It repairs nothing: `wakeboard check --after-restore` says what is left to do.
-- Example:
--   select wakeboard.acknowledge_server_changes(3, 'the orders of 14:03 were entered again');

create or replace function wakeboard.acknowledge_server_changes(
  newest bigint, reason text default '', actor wakeboard.audit_actor default null, source wakeboard.acting_program default 'sql')
returns integer language plpgsql security definer
set lock_timeout = '2s'
as $$
declare
  changes jsonb;                       -- the newest 20
  acknowledged integer;
begin
  perform note_server();
  with done as (
    update server_changes set acknowledged_at = statement_timestamp()
     where id <= newest and (at_risk or lost) and acknowledged_at is null
    returning id, kind, lost, kept_until, noticed_at)
  select jsonb_agg(jsonb_build_object('kind', kind, 'lost', lost, 'kept_until', kept_until, 'noticed_at', noticed_at) order by id)
           filter (where place <= 20), count(*)
    into changes, acknowledged from (select *, row_number() over (order by id desc) as place from done) as newest_first;
  if changes is null then
    return 0;
  end if;
  insert into audit_log (actor, source, action, reason, detail)
  values (coalesce(actor, session_user), source, 'acknowledge_server_changes', coalesce(left(acknowledge_server_changes.reason, 200), ''),
          jsonb_build_object('count', acknowledged, 'changes', changes));
  perform note_all_schedules();
  return acknowledged;
exception when lock_not_available then
  perform refuse_locked();
end
$$;
