-- for: worker
-- Returns the state of those of these runs that exist. `generation`: of the schedule when it made the run; null for a run of an
-- application. Raises 55P03 after waiting two seconds for a partition of the history that another transaction is dropping: try again.
-- Example:
--   select * from wakeboard.run_states('{1}');

create or replace function wakeboard.run_states(ids wakeboard.id_array)
returns table (id bigint, uuid uuid, status wakeboard.run_status, run_at timestamptz, generation bigint)
language plpgsql stable security definer
set enable_seqscan = off set jit = off set lock_timeout = '2s'
as $$
#variable_conflict use_column
begin
  return query
  select id, uuid, status, run_at, definition_generation from job_runs where id = any (ids)
  union all
  select id, uuid, status, run_at, definition_generation from job_run_history where id = any (ids);
exception when lock_not_available then       -- a partition of the history is being dropped
  perform refuse_locked();
end
$$;
