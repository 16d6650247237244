-- internal (called by check_schedule_name and schedule)
-- Raises 22023 if the namespace has as many schedules of applications as an administrator allows (set_max_schedules). Until the transaction
-- ends, no other caller can create one in the namespace (lock_namespace).

create or replace function wakeboard.check_schedule_count(in_namespace text, most integer)
returns void language plpgsql security definer
set enable_seqscan = off
as $$
begin
  perform require_read_committed('a new schedule in a namespace with a bound');
  perform lock_namespace(in_namespace);
  if most <= (select count(*) from (
                select from job_definitions
                 where source = 'app' and namespace = in_namespace and removed_at is null limit most) as known) then
    raise exception using errcode = '22023', message = case most
      when 0 then format('the namespace %s takes no new schedules of applications: the bound is 0, set by an administrator', in_namespace)
      else format('the namespace %s has all the schedules of applications that it may have: the bound is %s, set by an administrator;'
                  ' remove some of them first', in_namespace, most) end;
  end if;
end
$$;
