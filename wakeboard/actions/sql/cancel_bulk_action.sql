-- for: operator
-- Ends a bulk action: no run has its action after this has committed. Waits for the end of a batch that is being executed. What was done
-- stays. False: it was finished or cancelled already, or there is none. Otherwise it writes an audit row (see Audit).
-- Example:
--   select wakeboard.cancel_bulk_action(1);

create or replace function wakeboard.cancel_bulk_action(
  bulk_action_id bigint, reason text default '', actor wakeboard.audit_actor default null, source wakeboard.acting_program default 'sql')
returns boolean language plpgsql security definer
set lock_timeout = '10s'
as $$
#variable_conflict use_column
declare
  bulk bulk_actions;
begin
  update bulk_actions as known set cancelled_at = statement_timestamp(), finished_at = statement_timestamp()
   where known.id = cancel_bulk_action.bulk_action_id and known.finished_at is null
  returning * into bulk;
  if not found then
    perform wait_for_standby();
    return false;
  end if;
  insert into audit_log (actor, source, action, reason, detail, bulk_action_id)
  values (coalesce(actor, session_user), source, 'cancel_bulk_action', coalesce(left(cancel_bulk_action.reason, 200), ''),
          jsonb_build_object('action', bulk.action, 'total', bulk.total, 'done', bulk.done, 'refused', bulk.refused), bulk.id);
  return true;
exception when lock_not_available then
  perform refuse_locked();
end
$$;
