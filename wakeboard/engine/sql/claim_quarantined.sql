-- internal (called by fetch_runs)
-- Leases at most one quarantined run: the one that has been due for longest. A run is quarantined after its second crash. The caller must
-- run nothing else until that run has ended, so that a poison pill harms no other run. Respects limits as `claim_limited` does.

create or replace function wakeboard.claim_quarantined(
  worker bigint, lease_s integer, queues text[], job_types text[], max_timeout_s integer default 2678400)
returns setof wakeboard.claimed_run language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set jit = off set lock_timeout = '1s'
as $$
declare
  candidate record;
begin
  perform require_read_committed('claim_quarantined');
  for candidate in
    select id, definition_id, limit_key, shared_limit_key
      from job_runs
     where crash_count >= 2 and dead_at is null and locked_by = 0 and run_at <= statement_timestamp()
       and queue = any (queues) and job_type = any (job_types) and timeout_s <= max_timeout_s
       and not exists (select from pauses where scope in ('all', 'queue:' || job_runs.queue))
       and (limit_key is null or free_slots(limit_key) > 0 and free_slots(shared_limit_key) > 0
            and not exists (select from job_limits as bound where key in (limit_key, shared_limit_key) and free_units(bound) <= 0))
     order by run_at, id
     limit 100
  loop
    if candidate.limit_key is not null then
      perform create_limits(array_remove(array[candidate.limit_key, candidate.shared_limit_key], null));
      perform from job_limits where key = candidate.limit_key for update skip locked;
      continue when not found;
      perform from job_limits where key = candidate.shared_limit_key for update skip locked;
      continue when not found and candidate.shared_limit_key is not null;
      continue when free_slots(candidate.limit_key) <= 0 or free_slots(candidate.shared_limit_key) <= 0
                 or exists (select from job_limits as bound
                             where key in (candidate.limit_key, candidate.shared_limit_key) and free_units(bound) <= 0);
    end if;
    perform from job_runs
      where id = candidate.id and limit_key is not distinct from candidate.limit_key
        and shared_limit_key is not distinct from candidate.shared_limit_key
        and locked_by = 0 and crash_count >= 2 and dead_at is null and run_at <= statement_timestamp()
        for update skip locked;
    continue when not found;
    update job_limits as bound set next_unit_at = advance_rate(bound, 1)
     where bound.key = coalesce(candidate.shared_limit_key, candidate.limit_key) and bound.rate_count is not null;
    return query select * from lease_runs(worker, lease_s, array[candidate.id], array[candidate.definition_id]);
    exit;
  end loop;
end
$$;
