-- for: operator
-- Suspends these schedules of `source`, whose objects no longer exist and whose removal waits for a confirmation. It empties their
-- spec_hash, so that an object that is created again is synced and resumes its schedule. Returns how many it suspended: those that another
-- transaction has locked are left to the next call.

create or replace function wakeboard.suspend_definitions(source wakeboard.source_name, ids wakeboard.id_array)
returns integer language plpgsql security definer
set lock_timeout = '2s'
as $$
declare
  mine constant bigint[] := lock_definitions(ids);
  stopped integer;
begin
  with known as materialized (
    select def.id
      from (select * from job_definitions where id = any (mine) offset 0) as def         -- see enqueue_due_ticks
     where def.source = suspend_definitions.source and def.removed_at is null and not def.suspended
  ), updated as (
    update job_definitions as def
       set suspended = true, next_run_at = null, spec_hash = '', updated_at = statement_timestamp()
      from known where def.id = known.id
  ), noted as (
    insert into definition_changes (definition_id) select known.id from known
  )
  select count(*)::integer into stopped from known;
  return stopped;
end
$$;
