-- for: client, worker, operator
-- The state of a run for the application that enqueued it: it names the run by both values that `enqueue` returned. No row: there is
-- no such run, or the uuid is another run's. `error` is the last attempt's, with credentials masked; `result` is the handler's.

create or replace function wakeboard.get_run(run_id bigint, run_uuid uuid)
returns table (
  status wakeboard.run_status, attempts integer, run_at timestamptz, finished_at timestamptz, error_type text, error text, reason text,
  result jsonb)
language sql stable security definer
set search_path = pg_catalog, wakeboard, pg_temp
set enable_seqscan = off set jit = off
as $$
  select status, attempts, run_at, null::timestamptz, error_type, last_error, cancel_reason, null::jsonb
    from job_runs
   where id = run_id and uuid = run_uuid
  union all
  select status, attempts, run_at, finished_at, error_type, last_error, reason, result
    from job_run_history
   where id = run_id and uuid = run_uuid
   limit 1
$$;
