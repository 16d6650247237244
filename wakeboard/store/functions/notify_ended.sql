-- internal (trigger of ended_runs)
-- Notifies listening workers that a run has ended which others may wait for. It is called for no other end.

create or replace function wakeboard.notify_ended()
returns trigger language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp
as $$
begin
  perform pg_notify('wakeboard', 'ended');
  return null;
end
$$;
create or replace trigger ended_runs_notify after insert on wakeboard.ended_runs
  for each row execute function wakeboard.notify_ended();
