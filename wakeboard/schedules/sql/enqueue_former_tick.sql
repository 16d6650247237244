-- internal (called by edit_schedule and remove_schedules)
-- Turns the oldest due tick of a schedule (due_tick) into a run, before an edit or a removal of the schedule. If there is a reason why it
-- does not run (`skip_reason`, or one of the schedule's policies), it is recorded as skipped, with the ticks after it
-- until `skipped_until`, `skipped_count` together. Returns the schedule with its circuit, of which the tick may be the probe, as in
-- enqueue_due_ticks. The caller advances the cursor.

create or replace function wakeboard.enqueue_former_tick(
  def wakeboard.job_definitions, tick timestamptz, skip_reason text, skipped_count bigint default 1, skipped_until timestamptz default null)
returns wakeboard.job_definitions language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
declare
  reason text := case
    when skip_reason is not null then skip_reason
    when statement_timestamp() - tick > make_interval(secs => def.starting_deadline_s) then 'TooLate' end;
  is_probe boolean := false;
  made bigint;
begin
  if tick <= def.last_tick_at then
    return def;
  end if;
  if reason is null and def.suspend_after_dead is not null then
    def := current_circuit(def);
    is_probe := coalesce(def.circuit_probe_id is null and def.circuit_probe_at <= tick, false);
  end if;
  reason := case
    when reason is not null then reason
    when def.circuit_opened_at is not null and not is_probe then 'CircuitOpen'
    when def.concurrency_policy = 'Forbid'
     and exists (select from job_runs as run
                  where run.definition_id = def.id and run.status in ('queued', 'running', 'failed') and run.trigger <> 'backfill'
                 offset 0) then 'Forbidden' end;
  if reason is null and def.concurrency_policy = 'Replace' then
    loop                                     -- again if a user has retried a dead one meanwhile
      perform from job_runs as run           -- in the order of lock_runs; it waits until the caller's lock_timeout
        where run.definition_id = def.id and run.status in ('queued', 'running', 'failed') and run.trigger <> 'backfill'
        order by run.id for no key update;
      exit when (select locked = '{}' from replace_runs(array[def.id]));
    end loop;
  end if;
  if reason is null then
    insert into job_runs (
      scheduled_for, run_at, trigger, backoff_strategy, backoff_base_s, backoff_cap_s, timeout_s, max_attempts, priority, queue, job_type,
      payload, definition_id, definition_generation, schedule, limit_key, shared_limit_key, start_before, has_dependents)
    values (tick, tick + random() * make_interval(secs => def.jitter_s), 'tick', def.backoff_strategy,
            def.backoff_base_s, def.backoff_cap_s, def.timeout_s, def.max_attempts, def.priority, def.queue, def.job_type, def.payload,
            def.id, def.generation, def.namespace || '/' || def.name,
            case def.concurrency_policy when 'Allow' then def.limit_key else 'schedule:' || def.id end,
            case when def.concurrency_policy <> 'Allow' then def.limit_key end,
            tick + make_interval(secs => def.starting_deadline_s), def.has_dependents)
    returning id into made;
    def.circuit_probe_id := case when is_probe then made else def.circuit_probe_id end;
    return def;
  end if;
  perform require_partition();
  insert into job_run_history (
    id, uuid, scheduled_for, run_at, created_at, started_at, finished_at, locked_by, lease_epoch, status, trigger, backoff_strategy,
    backoff_base_s, backoff_cap_s, timeout_s, attempts, max_attempts, crash_count, release_count, priority, queue, job_type, payload,
    definition_id, definition_generation, schedule, reason, skipped_until, skipped_count)
  values (nextval('job_runs_id_seq'), gen_random_uuid(), tick, tick, statement_timestamp(), 'epoch',
          statement_timestamp(), 0, 0, 'skipped', 'tick', def.backoff_strategy, def.backoff_base_s, def.backoff_cap_s, def.timeout_s, 0,
          def.max_attempts, 0, 0, def.priority, def.queue, def.job_type, def.payload, def.id, def.generation,
          def.namespace || '/' || def.name, reason, coalesce(enqueue_former_tick.skipped_until, tick), enqueue_former_tick.skipped_count);
  return def;
end
$$;
