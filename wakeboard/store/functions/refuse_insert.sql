-- for: nobody (a trigger)
-- Raises 22023 for a plain INSERT into job_runs that sets columns which only our functions may set; the message names the function.

create or replace function wakeboard.refuse_insert()
returns trigger language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp
as $$
begin
  raise exception using errcode = '22023', message = case
    when new.idempotency_key is not null then
      'an INSERT cannot set idempotency_key, since nothing would guard it; call wakeboard.enqueue(…, idempotency_key => …)'
    when new.limit_key is not null then 'an INSERT cannot set limit_key; call wakeboard.enqueue(…, limit_key => …)'
    else 'an INSERT into job_runs sets job_type, payload, queue, priority, run_at, max_attempts, timeout_s and backoff_*; '
         'leave the other columns out' end;
end
$$;
