-- internal (trigger of job_runs)
-- Rejects a plain INSERT into job_runs that sets columns which only the SQL functions may set, and names the function to call. The SQL
-- functions are recognized by their search_path, so this one must not set one, and no name in it may depend on one.

create or replace function wakeboard.refuse_insert()
returns trigger language plpgsql
as $$
begin
  if pg_catalog.replace(pg_catalog.current_setting('search_path'), '"', '')                    -- quoted with quote_all_identifiers
     operator(pg_catalog.=) 'pg_catalog, wakeboard, pg_temp' then
    return new;
  end if;
  raise exception using errcode = '22023', message = case
    when new.idempotency_key is not null then
      'an INSERT cannot set idempotency_key, since nothing would guard it; call wakeboard.enqueue(…, idempotency_key => …)'
    when new.limit_key is not null then 'an INSERT cannot set limit_key; call wakeboard.enqueue(…, limit_key => …)'
    else 'an INSERT into job_runs sets job_type, payload, queue, priority, run_at, max_attempts, timeout_s and backoff_*; '
         'leave the other columns out' end;
end
$$;
alter function wakeboard.refuse_insert() reset all;
