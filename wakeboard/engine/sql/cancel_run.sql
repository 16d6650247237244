-- for: client, worker, operator
-- Cancels a run of an application, which passes both values that `enqueue` returned. The answers are those of `cancel`;
-- 'refused: there is no such run' also if the uuid belongs to another run.
-- Example:
--   select wakeboard.cancel_run(42, '0192f0c1-2a6b-4d33-8f0e-6a1b5c7d9e01', 'the order was withdrawn');

create or replace function wakeboard.cancel_run(run_id bigint, run_uuid uuid, reason text default 'Cancelled')
returns text language plpgsql security definer
as $$
begin
  if not exists (select from get_run(run_id, run_uuid)) then
    return 'refused: there is no such run';
  end if;
  return (select answer from cancel(array[run_id], reason));
end
$$;
