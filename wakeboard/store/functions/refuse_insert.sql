-- for: nobody (a trigger)
-- Refuses a plain INSERT into job_runs that sets what only our functions may set, and says which function does it. Our functions are
-- known by the search path that each of them has, so this one has none of its own, and no name in it depends on one.

create or replace function wakeboard.refuse_insert()
returns trigger language plpgsql
as $$
begin
  if pg_catalog.current_setting('search_path') operator(pg_catalog.=) 'pg_catalog, wakeboard, pg_temp' then
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
