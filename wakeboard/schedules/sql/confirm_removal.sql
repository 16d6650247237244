-- for: operator
-- Confirms the pending removal of schedules of `source`. The confirmation is valid for an hour, for that list only. Returns the number of
-- schedules that it removes; null if no removal is pending. Otherwise it writes an audit row (see Audit), with
-- `acted_through` as its source.
-- Example:
--   select wakeboard.confirm_removal('file:shop');

create or replace function wakeboard.confirm_removal(
  source wakeboard.source_name, reason text default '',
  actor wakeboard.audit_actor default null, acted_through wakeboard.acting_program default 'sql')
returns integer language plpgsql security definer
set lock_timeout = '2s'
as $$
declare
  hold pending_removals;
begin
  update pending_removals set confirmed_at = statement_timestamp()
   where pending_removals.source = confirm_removal.source returning * into hold;
  if found then
    insert into audit_log (actor, source, action, scope, reason, detail)
    values (coalesce(actor, session_user), acted_through, 'confirm_removal', hold.source, coalesce(left(confirm_removal.reason, 200), ''),
            jsonb_build_object('count', hold.count));
  end if;
  return hold.count;
exception when lock_not_available then
  perform refuse_locked();
end
$$;
