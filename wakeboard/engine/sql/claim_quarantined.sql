-- internal (called by fetch_runs)
-- Leases at most one quarantined run: the one that has been due for longest. A run is quarantined after its second crash. The caller must
-- run nothing else until that run has ended, so that a poison pill harms no other run. Respects limits as `claim_limited` does.

create or replace function wakeboard.claim_quarantined(
  worker wakeboard.worker_number, lease_s wakeboard.lease_duration_s, queues wakeboard.queue_array, job_types wakeboard.job_type_array,
  max_timeout_s wakeboard.longest_timeout_s default 2678400)
returns setof wakeboard.claimed_run language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set jit = off set lock_timeout = '1s'
as $$
declare
  candidate record;
begin
  perform require_read_committed('claim_quarantined');
  for candidate in
    select id, limit_key, shared_limit_key
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
    return query
    with claimed as (
      update job_runs as run
         set status = 'running', locked_by = worker, attempts = attempts + 1,
             lease_epoch = greatest(lease_epoch, (select lease_base())) + (select lease_step()),
             holds_slot = limit_key is not null, started_at = statement_timestamp(),
             locked_until = statement_timestamp() + make_interval(secs => least(lease_s, timeout_s + 10, 3600))
       where run.id = (select id from job_runs
                        where id = candidate.id and limit_key is not distinct from candidate.limit_key
                          and shared_limit_key is not distinct from candidate.shared_limit_key
                          and locked_by = 0 and crash_count >= 2 and dead_at is null and run_at <= statement_timestamp()
                          for update skip locked)
      returning run.*
    ), noted as (
      insert into definition_changes (definition_id) select definition_id from claimed where definition_id is not null
    ), taken as (
      update job_limits as bound set next_unit_at = advance_rate(bound, 1)
       where bound.key = (select coalesce(shared_limit_key, limit_key) from claimed) and bound.rate_count is not null
    )
    select id, lease_epoch, job_type::text, payload::jsonb, attempts, max_attempts::integer, timeout_s::integer, scheduled_for, run_at,
           queue::text, priority::smallint, crash_count, uuid, definition_id, schedule
      from claimed;
    exit when found;
  end loop;
end
$$;
