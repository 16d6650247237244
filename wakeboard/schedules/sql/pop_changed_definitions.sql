-- for: operator
-- Removes up to `count` entries of definition_changes and returns the ids of the schedules whose status must be computed again, each once.
-- Schedules of applications are not among them: no object has their status.
-- Example:
--   select wakeboard.pop_changed_definitions();

create or replace function wakeboard.pop_changed_definitions(count wakeboard.row_count default 10000)
returns setof bigint language sql volatile security definer
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off set lock_timeout = '2s'
as $$
  with taken as (
    delete from definition_changes
     where ctid = any (array(select ctid from definition_changes limit count for update skip locked))
    returning definition_id)
  select distinct definition_id from taken
   where not exists (select from job_definitions as def where def.id = definition_id and def.source = 'app')
$$;
