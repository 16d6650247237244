-- for: client, worker, operator
-- Returns the state of a run of an application, which passes both values that `enqueue` returned. No row: there is no such run, or the uuid
-- belongs to another run. `error`: of the latest failed attempt, with credentials masked. `result`: what the handler returned.
-- Raises 55P03 after waiting two seconds for a partition of the history that another transaction is dropping: try again.
-- Example:
--   select status, result from wakeboard.get_run(42, '0192f0c1-2a6b-4d33-8f0e-6a1b5c7d9e01');

create or replace function wakeboard.get_run(run_id bigint, run_uuid uuid)
returns table (
  status wakeboard.run_status, attempts integer, run_at timestamptz, finished_at timestamptz, error_type text, error text, reason text,
  result jsonb)
language plpgsql stable security definer
set enable_seqscan = off set jit = off set lock_timeout = '2s'
as $$
#variable_conflict use_column
begin
  return query
  select status, attempts, run_at, null::timestamptz, error_type, last_error, cancel_reason, null::jsonb
    from job_runs
   where id = run_id and uuid = run_uuid
  union all
  select status, attempts, run_at, finished_at, error_type, last_error, reason, result
    from job_run_history
   where id = run_id and uuid = run_uuid
   limit 1;
exception when lock_not_available then       -- a partition of the history is being dropped
  perform refuse_locked();
end
$$;
