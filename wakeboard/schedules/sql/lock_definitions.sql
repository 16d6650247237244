-- internal (called by remove_definitions, suspend_definitions and sync_definitions)
-- Locks these schedules in the order of their ids and returns the ids that it has locked. After waiting for two seconds it leaves out the
-- schedules that another transaction keeps locked.

create or replace function wakeboard.lock_definitions(ids bigint[])
returns bigint[] language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set lock_timeout = '2s'
as $$
begin
  return array(select def.id from job_definitions as def where def.id = any (ids) order by def.id for update);
exception when lock_not_available then
  return array(select def.id from job_definitions as def where def.id = any (ids) order by def.id for update skip locked);
end
$$;
