-- internal (called by fail, release and revoke_leases)
-- Notes the end of these runs of schedules, which are dead, for schedules that run after any end. Only ticks count: a run that a user
-- started has none, and neither has its replay. Their scheduled_for is not a whole second.

create or replace function wakeboard.note_dead_runs(ids bigint[])
returns void language plpgsql security definer
as $$
begin
  insert into ended_runs (run_id, definition_id, scheduled_for, outcome)
  select id, definition_id, scheduled_for, 'ended' from job_runs
   where id = any (ids) and definition_id is not null and trigger <> 'manual' and dead_at is not null
     and scheduled_for = date_trunc('second', scheduled_for);
  insert into definition_changes (definition_id)               -- the status of these names the dead run
  select distinct edge.definition_id
    from job_runs as run join schedule_dependencies as edge on edge.parent_id = run.definition_id
   where run.id = any (ids);
end
$$;
