-- internal (trigger of job_runs)
-- Notifies listening workers when runs are inserted, by whatever statement. One notification per transaction.

create or replace function wakeboard.notify_workers()
returns trigger language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp
as $$
begin
  perform pg_notify('wakeboard', '');
  return null;
end
$$;
create or replace trigger job_runs_notify after insert on wakeboard.job_runs
  for each statement execute function wakeboard.notify_workers();
