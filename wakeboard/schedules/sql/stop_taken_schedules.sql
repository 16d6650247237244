-- internal (called by create_dependent_runs, enqueue_dependents, enqueue_due_ticks and sync_definitions)
-- Stops those of the schedules `ids` that a cluster or a folder declares and whose names applications have (schedule_error), and returns
-- them. Two open transactions may create schedules of one name, because neither sees the other. Then the one of the application runs: who
-- declares the other learns of it in the status and sends it again. The caller has locked the schedules, and asks before each tick.

create or replace function wakeboard.stop_taken_schedules(ids bigint[])
returns bigint[] language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
declare
  taken bigint[] := '{}';
begin
  if exists (select from job_definitions where source = 'app') then
    with stopped as (
      update job_definitions as def set schedule_error = found.why
        from (select id, taken_by_application(namespace, name) as why
                from (select * from job_definitions where id = any (ids) offset 0) as known         -- see enqueue_due_ticks
               where source <> 'app' and removed_at is null and schedule_error is null) as found
       where def.id = found.id and found.why is not null
      returning def.id
    ), noted as (
      insert into definition_changes (definition_id) select id from stopped
    )
    select coalesce(array_agg(id), '{}') into taken from stopped;
  end if;
  return taken;
end
$$;
