-- internal (trigger of definition_changes)
-- Drops the notes about schedules of applications: only an operator reads notes, to write the status of an object, and these have no
-- object.

create or replace function wakeboard.change_noted()
returns trigger language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp set enable_seqscan = off
as $$
begin
  if exists (select from job_definitions where id = new.definition_id and source = 'app') then
    return null;
  end if;
  return new;
end
$$;
create or replace trigger definition_changes_noted before insert on wakeboard.definition_changes
  for each row execute function wakeboard.change_noted();
