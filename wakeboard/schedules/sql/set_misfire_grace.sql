-- for: operator
-- Sets how late the due tick of a schedule may be when an application edits the schedule: if it is later, catch_up decides about it. From a
-- second to a day; before the first call it is five minutes. Operators, `up` and `migrate` call this if their
-- misfire_grace_seconds is set. Writes an audit row if the value changes (see Audit).
-- Example:
--   select wakeboard.set_misfire_grace('1 hour');

create or replace function wakeboard.set_misfire_grace(grace interval)
returns void language plpgsql security definer
set lock_timeout = '2s'
as $$
declare
  former constant interval := (select misfire_grace from installation);
begin
  if grace between '1 second' and '1 day' is not true then
    perform refuse_argument('grace', grace::text, 'an interval from 1 second to 1 day, such as 5 minutes');
  end if;
  update installation set misfire_grace = grace where misfire_grace is distinct from grace;
  if found then
    insert into audit_log (actor, source, action, detail)
    values (session_user, 'sql', 'set_misfire_grace', jsonb_build_object(
      'before', trim_scale(extract(epoch from former)), 'after', trim_scale(extract(epoch from grace))));
  end if;
exception when lock_not_available then
  perform refuse_locked();
end
$$;
