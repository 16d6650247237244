-- internal (called by claim_in_order, claim_limited, claim_oldest, claim_quarantined and fetch_runs)
-- Leases to `worker` runs that this transaction has locked; `definitions` are their schedules. Runs with a limit key take a slot of it.
-- A lease holds for least(lease_s, timeout_s + 10, 3600) seconds. Returns a `claimed_run` for each.

create or replace function wakeboard.lease_runs(worker bigint, lease_s integer, ids bigint[], definitions bigint[])
returns setof wakeboard.claimed_run language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
set plan_cache_mode = force_generic_plan set lock_timeout = '1s'
as $$
begin
  if array_remove(definitions, null) <> '{}' then
    insert into definition_changes (definition_id)
    select distinct definition_id from unnest(definitions) as definition_id where definition_id is not null;
  end if;
  return query                         -- one statement without a CTE, which would store the rows first
  update job_runs as run
     set status = 'running', locked_by = worker, attempts = attempts + 1,
         lease_epoch = greatest(lease_epoch, (select lease_base())) + (select lease_step()),
         holds_slot = limit_key is not null, started_at = statement_timestamp(),
         locked_until = statement_timestamp() + make_interval(secs => least(lease_s, timeout_s + 10, 3600))
   where run.id = any (ids)
  returning run.id, lease_epoch, job_type::text, payload::jsonb, attempts, max_attempts::integer, timeout_s::integer, scheduled_for,
            run_at, run.queue::text, run.priority::smallint, crash_count, uuid, definition_id, schedule;
end
$$;
