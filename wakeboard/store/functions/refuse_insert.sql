-- internal (trigger of job_runs)
-- Rejects a plain INSERT into job_runs that sets columns which only the SQL functions may set, and names the function to call. The SQL
-- functions are recognized by their search_path, so this one must not set one, and no name in it may depend on one. `enqueue` and
-- `enqueue_many`, which must be fast, set locked_until to 1969-12-31 instead: the trigger's condition excludes such rows. An owner who sets
-- that value bypasses this function.

create or replace function wakeboard.refuse_insert()
returns trigger language plpgsql
as $$
begin
  -- All internal columns have their defaults. Not tested: id (Postgres refuses it), uuid (its default is random), what an INSERT may set.
  if pg_catalog.num_nonnulls(
       new.idempotency_key, new.limit_key, new.shared_limit_key, new.definition_id, new.definition_generation, new.schedule, new.start_before,
       new.cancel_requested_at, new.cancel_reason, new.failed_at, new.dead_at, new.progress, new.error_type, new.last_error, new.last_stack,
       new.started_epoch, new.has_dependents) operator(pg_catalog.=) 0
     and new.status operator(pg_catalog.=) 'queued' and new.trigger operator(pg_catalog.=) 'application'
     and (new.attempts operator(pg_catalog.|) new.crash_count operator(pg_catalog.|) new.release_count) operator(pg_catalog.=) 0
     and (new.lease_epoch operator(pg_catalog.|) new.locked_by) operator(pg_catalog.=) 0 and not new.holds_slot
     and new.started_at operator(pg_catalog.=) 'epoch' and new.locked_until operator(pg_catalog.=) 'epoch'
     and new.created_at operator(pg_catalog.=) pg_catalog.statement_timestamp()
     and new.scheduled_for operator(pg_catalog.=) pg_catalog.statement_timestamp() then
    return new;
  end if;
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
