-- internal (called by many functions)
-- Locks the live ones of these runs in the order of their ids and returns the ids that it has locked. After waiting for two seconds it
-- leaves out the runs that another transaction keeps locked. An open `once` does not block it.

create or replace function wakeboard.lock_runs(ids bigint[])
returns bigint[] language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set lock_timeout = '2s'
as $$
begin
  return array(select run.id from job_runs as run where run.id = any (ids) order by run.id for no key update);
exception when lock_not_available then
  return array(select run.id from job_runs as run where run.id = any (ids) order by run.id for no key update skip locked);
end
$$;
