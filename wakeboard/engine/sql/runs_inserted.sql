-- internal (trigger of job_runs)
-- After each INSERT into job_runs: notifies listening workers, once in each transaction. It refuses a plain INSERT of a row with a column
-- that only the SQL functions may set, a job type of the product, or a backoff_cap_s below backoff_base_s. It is called once for each
-- statement, because a call costs about as much as checking one row. `inserted` is the transition table, which hides any table of this
-- name. The trigger runs with the search_path of the INSERT, which tells the SQL functions from others, so each name in it, also of a type,
-- has its schema. It also runs with the rights of the INSERT, so it calls no other function of the schema. A role with the right TRIGGER on
-- the table, such as the owner, bypasses the check with this search_path.

create or replace function wakeboard.runs_inserted()
returns trigger language plpgsql
as $$
declare
  wrong pg_catalog.record;                 -- the session keeps the compiled function, also for calls as the owner
begin
  if pg_catalog.pg_notify('wakeboard', '') is null then    -- never true: an IF calls the function faster than PERFORM
    return null;
  end if;
  if pg_catalog.replace(pg_catalog.current_setting('search_path'), '"', '')                    -- quoted with quote_all_identifiers
     operator(pg_catalog.=) 'pg_catalog, wakeboard, pg_temp' and pg_catalog.has_table_privilege(tg_relid, 'trigger') then
    return null;
  end if;
  -- One row with an internal column that differs from its default, or with a longest pause below the first. Not tested: id (Postgres
  -- refuses it), uuid (its default is random), and what an INSERT may set.
  select job_type, idempotency_key, limit_key, backoff_base_s, backoff_cap_s into wrong
    from inserted
   where not (
     pg_catalog.num_nonnulls(
       idempotency_key, limit_key, shared_limit_key, definition_id, definition_generation, schedule, start_before, cancel_requested_at,
       cancel_reason, failed_at, dead_at, progress, progress_message, error_type, last_error, last_stack, started_epoch,
       has_dependents)
         operator(pg_catalog.=) 0
     and status operator(pg_catalog.=) 'queued' and trigger operator(pg_catalog.=) 'application'
     and (attempts operator(pg_catalog.|) crash_count operator(pg_catalog.|) release_count) operator(pg_catalog.=) 0
     and (lease_epoch operator(pg_catalog.|) locked_by) operator(pg_catalog.=) 0 and not holds_slot
     and started_at operator(pg_catalog.=) 'epoch' and locked_until operator(pg_catalog.=) 'epoch'
     and created_at operator(pg_catalog.=) pg_catalog.statement_timestamp()
     and scheduled_for operator(pg_catalog.=) pg_catalog.statement_timestamp()
     and backoff_cap_s operator(pg_catalog.>=) backoff_base_s and not pg_catalog.starts_with(job_type, 'wakeboard.'))
   limit 1;
  if not found then
    return null;
  end if;
  raise exception using errcode = '22023', message = case
    when wrong.backoff_cap_s operator(pg_catalog.<) wrong.backoff_base_s then pg_catalog.format(          -- as in check_backoff.sql
      'backoff_cap_s is %s, below backoff_base_s %s; write a backoff_cap_s of at least %2$s', wrong.backoff_cap_s, wrong.backoff_base_s)
    when pg_catalog.starts_with(wrong.job_type, 'wakeboard.') then pg_catalog.format(                     -- as in refuse_value.sql
      'job_type is %s; names that begin with wakeboard. are of the product, write another one', pg_catalog.to_json(wrong.job_type))
    when wrong.idempotency_key is not null then
      'an INSERT cannot set idempotency_key, since nothing would guard it; call wakeboard.enqueue(…, idempotency_key => …)'
    when wrong.limit_key is not null then 'an INSERT cannot set limit_key; call wakeboard.enqueue(…, limit_key => …)'
    else 'an INSERT into job_runs may set job_type, payload, queue, priority, run_at, max_attempts, timeout_s and backoff_*; '
         'leave the other columns out' end;
end
$$;
create or replace trigger job_runs_inserted after insert on wakeboard.job_runs
  referencing new table as inserted for each statement execute function wakeboard.runs_inserted();
