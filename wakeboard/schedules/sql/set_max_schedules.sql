-- for: operator
-- Bounds how many schedules applications may have in each namespace (null: any number). Those that there are stay. Each new schedule
-- counts those of its namespace, a microsecond for each ten. Writes an audit row if it changes (see Audit).
-- Example:
--   select wakeboard.set_max_schedules(10000);

create or replace function wakeboard.set_max_schedules(count integer)
returns void language plpgsql security definer
set lock_timeout = '2s'
as $$
declare
  former installation;
begin
  perform refuse_argument('count', count::text, 'a whole number from 0 on, or null') where count < 0;
  select * into former from installation;
  update installation set max_schedules_per_namespace = set_max_schedules.count
   where max_schedules_per_namespace is distinct from set_max_schedules.count;
  if found then
    insert into audit_log (actor, source, action, detail)
    values (session_user, 'sql', 'set_max_schedules', jsonb_build_object('before', former.max_schedules_per_namespace, 'after', count));
  end if;
exception when lock_not_available then
  perform refuse_locked();
end
$$;
