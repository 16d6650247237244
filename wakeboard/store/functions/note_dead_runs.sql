-- internal (called by fail, release and reap)
-- Notes the end of these runs of schedules, which are dead, for schedules that run after any end.

create or replace function wakeboard.note_dead_runs(ids bigint[])
returns void language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp
as $$
begin
  insert into ended_runs (run_id, definition_id, scheduled_for, outcome)
  select id, definition_id, scheduled_for, 'ended' from job_runs
   where id = any (ids) and definition_id is not null and trigger <> 'manual' and dead_at is not null;
end
$$;
