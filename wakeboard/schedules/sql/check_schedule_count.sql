-- internal (called by check_schedule_name)
-- Raises 22023 if the namespace has as many schedules of applications as an administrator allows (set_max_schedules). Until the transaction
-- ends, no other caller can create one in the namespace: callers wait for each other, at most 2 seconds, and then get 55P03.

create or replace function wakeboard.check_schedule_count(in_namespace text, most integer)
returns void language plpgsql security definer
set enable_seqscan = off set lock_timeout = '2s'
as $$
begin
  perform require_read_committed('a new schedule in a namespace with a bound');
  perform pg_advisory_xact_lock(hashtextextended('wakeboard: schedules of ' || in_namespace, 0));
  if most <= (select count(*) from (
                select from job_definitions
                 where source = 'app' and namespace = in_namespace and removed_at is null limit most) as known) then
    raise exception using errcode = '22023', message = case most
      when 0 then format('the namespace %s takes no new schedules of applications: the bound is 0, set by an administrator', in_namespace)
      else format('the namespace %s has all the schedules of applications that it may have: the bound is %s, set by an administrator;'
                  ' remove some of them first', in_namespace, most) end;
  end if;
exception when lock_not_available then
  raise exception using errcode = '55P03', message = format(
    'the namespace %s has a bound, so callers that create schedules in it wait for each other, and another one keeps it; try again',
    in_namespace);
end
$$;
