-- internal (called by check_schedule_count and schedule_many)
-- Until the transaction ends, no other caller can create a schedule in this namespace, which has a bound: callers wait for each other, at
-- most 2 seconds, and then get 55P03. A transaction locks the namespace before a schedule of it, or two of them may wait for each other.

create or replace function wakeboard.lock_namespace(in_namespace text)
returns void language plpgsql security definer
set lock_timeout = '2s'
as $$
begin
  perform pg_advisory_xact_lock(hashtextextended('wakeboard: schedules of ' || in_namespace, 0));
exception when lock_not_available then
  raise exception using errcode = '55P03', message = format(
    'the namespace %s has a bound, so callers that create schedules in it wait for each other, and another one keeps it; try again',
    in_namespace);
end
$$;
