-- for: operator
-- Pauses 'all', 'queue:NAME' or 'schedule:ID': nothing of it is claimed (a schedule: no tick is made) until `resume`. Whatever
-- runs goes on. After the resume, ticks that were missed are treated as after any outage: catchUp decides. False: it was paused.

create or replace function wakeboard.pause(scope text, reason text default '')
returns boolean language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp
set lock_timeout = '2s'
as $$
#variable_conflict use_column
begin
  insert into pauses (scope, reason) values (pause.scope, left(pause.reason, 200)) on conflict do nothing;
  if not found then
    return false;
  end if;
  insert into definition_changes (definition_id)
  select id from job_definitions
   where removed_at is null and pause.scope in ('all', 'queue:' || queue, 'schedule:' || id);
  return true;
end
$$;
