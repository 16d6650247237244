-- internal (trigger of ended_runs)
-- Notifies listening workers that runs have ended which others may wait for. It is called for no other end.

create or replace function wakeboard.notify_ended()
returns trigger language plpgsql
as $$
begin
  if exists (select from noted) then
    perform pg_catalog.pg_notify('wakeboard', 'ended');
  end if;
  return null;
end
$$;
create or replace trigger ended_runs_notify after insert on wakeboard.ended_runs
  referencing new table as noted for each statement execute function wakeboard.notify_ended();
