-- for: client, worker, operator
-- Cancels a run for the application that enqueued it: it names the run by both values that `enqueue` returned. Answers as `cancel`
-- does; 'refused: there is no such run' also when the uuid is another run's.

create or replace function wakeboard.cancel_run(run_id bigint, run_uuid uuid, reason text default 'Cancelled')
returns text language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp
as $$
begin
  if not exists (select from get_run(run_id, run_uuid)) then
    return 'refused: there is no such run';
  end if;
  return (select answer from cancel(array[run_id], reason));
end
$$;
