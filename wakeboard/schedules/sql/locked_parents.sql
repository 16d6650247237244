-- internal (called by sync_definitions)
-- The names (namespace/name) of those of the schedules `parents` that cannot be marked as having dependents, because another transaction
-- has locked one of their runs, or the schedule itself: it is not in `mine`. It locks the runs that it can lock.

create or replace function wakeboard.locked_parents(parents bigint[], mine bigint[])
returns text[] language plpgsql security definer
set jit = off
as $$
begin
  if parents = '{}' then
    return '{}';
  end if;
  return array(
    select def.namespace || '/' || def.name
      from job_definitions as def cross join lock_runs(array(
        select run.id from job_runs as run
         where run.definition_id = any (parents) and run.has_dependents is not true and run.trigger <> 'manual')) as my_runs
     where def.id = any (parents)
       and (def.id <> all (mine)
            or exists (select from job_runs as run
                        where run.definition_id = def.id and run.has_dependents is not true and run.trigger <> 'manual'
                          and run.id <> all (my_runs))));
end
$$;
