-- for: operator
-- Sets how long the installation keeps audit rows and bulk actions: 1 to 3650 days. Before the first call it is 400 days. Only the owner of
-- the schema, and its members, can shorten it: for any other role a shorter retention counts as the present one, so that no user who acts
-- can delete the traces. Writes an audit row if the value changes (see Audit).
-- Example:
--   select wakeboard.set_audit_retention('400 days');

create or replace function wakeboard.set_audit_retention(retention interval)
returns void language plpgsql security definer
set lock_timeout = '2s'
as $$
declare
  former interval := (select min_audit_retention from installation);
  kept interval;
begin
  if retention is null then
    perform refuse_argument('retention', null, 'an interval, such as 400 days');
  end if;
  kept := longer_retention(case when not pg_has_role(session_user, current_user, 'member') then former end, retention);
  update installation set min_audit_retention = kept where min_audit_retention is distinct from kept;
  if found then
    insert into audit_log (actor, source, action, detail)
    select session_user, 'sql', 'set_audit_retention', jsonb_build_object(
             'before', trim_scale(extract(epoch from former) / 86400),
             'after', trim_scale(extract(epoch from min_audit_retention) / 86400))
      from installation;
  end if;
exception when lock_not_available then
  perform refuse_locked();
end
$$;
