-- internal (called by many functions)
-- Moves runs that the caller has locked from job_runs to history with `final_status` and the reason `why`. A cancelled run keeps the reason
-- of the request to cancel it, if there was one. Notes the end of runs that others may wait for; a skipped run has none. `complete` does
-- the same for runs that succeeded. Creates this week's partition of the history if it is missing: the caller may be an application.

create or replace function wakeboard.finish_runs(ids bigint[], final_status wakeboard.run_status, why text)
returns void language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_nestloop = off set enable_mergejoin = off set jit = off
as $$
begin
  perform require_partition();
  with gone as (
    delete from job_runs where id = any (ids) returning *
  ), noted as (
    insert into definition_changes (definition_id) select distinct definition_id from gone where definition_id is not null
  ), ended as (
    insert into ended_runs (run_id, definition_id, scheduled_for, outcome)
    -- see note_dead_runs
    select id, case when trigger <> 'manual' and scheduled_for = date_trunc('second', scheduled_for) then definition_id end,
           scheduled_for, 'ended'
      from gone where has_dependents and final_status <> 'skipped'
  )
  insert into job_run_history (
    id, uuid, scheduled_for, run_at, created_at, started_at, finished_at, locked_by, lease_epoch, status, trigger,
    backoff_strategy, backoff_base_s, backoff_cap_s, timeout_s, attempts, max_attempts, crash_count, release_count, priority,
    queue, job_type, payload, definition_id, definition_generation, schedule, limit_key, idempotency_key,
    failed_at, error_type, last_error, reason)
  select
    id, uuid, scheduled_for, run_at, created_at, started_at,
    greatest(started_at, statement_timestamp()),
    locked_by, lease_epoch, final_status, trigger,
    backoff_strategy, backoff_base_s, backoff_cap_s, timeout_s, attempts, max_attempts, crash_count, release_count, priority,
    queue, job_type, payload, definition_id, definition_generation, schedule, coalesce(shared_limit_key, limit_key),
    idempotency_key,
    failed_at, error_type, last_error,
    case final_status when 'cancelled' then coalesce(cancel_reason, why) else why end
  from gone;
  if final_status = 'cancelled' then           -- ticks that did not run may be part of another backfill
    with gone as (
      delete from backfill_ticks where run_id = any (ids) returning backfill_id
    )
    update backfills as job set created = created - gone.count
      from (select backfill_id, count(*) from gone group by 1) as gone
     where job.id = gone.backfill_id and job.cancelled_at is not null;   -- their ticks count as not run
  end if;
end
$$;
