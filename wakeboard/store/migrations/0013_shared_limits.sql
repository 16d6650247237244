-- A run has one limit key and may need a slot of a second one: a schedule that must not run twice at once has a key of its own, and
-- may share its limitKey with other schedules.

alter table job_runs add column shared_limit_key text;      -- the schedule's limitKey, where limit_key is the schedule's own
create index job_runs_shared_slots on job_runs (shared_limit_key) where holds_slot and shared_limit_key is not null;

update job_runs as run
   set limit_key = 'schedule:' || def.id, shared_limit_key = def.limit_key, holds_slot = run.locked_by <> 0
  from job_definitions as def
 where def.id = run.definition_id and def.concurrency_policy <> 'Allow'
   and (run.limit_key is distinct from 'schedule:' || def.id or run.shared_limit_key is distinct from def.limit_key);

create or replace view all_runs as
  select id, uuid, scheduled_for, run_at, created_at, nullif(started_at, 'epoch') as started_at, null::timestamptz as finished_at,
         locked_by, lease_epoch, status, trigger, backoff_strategy, backoff_base_s, backoff_cap_s, timeout_s, attempts, max_attempts,
         crash_count, release_count, priority, queue, job_type, payload, definition_id, definition_generation, schedule,
         coalesce(shared_limit_key, limit_key) as limit_key,
         idempotency_key, cancel_requested_at, failed_at, dead_at, progress, error_type, last_error, null::text as reason,
         null::jsonb as result, null::timestamptz as skipped_until, null::bigint as skipped_count
    from job_runs
  union all
  select id, uuid, scheduled_for, run_at, created_at, nullif(started_at, 'epoch'), finished_at,
         locked_by, lease_epoch, status, trigger, backoff_strategy, backoff_base_s, backoff_cap_s, timeout_s, attempts, max_attempts,
         crash_count, release_count, priority, queue, job_type, payload, definition_id, definition_generation, schedule, limit_key,
         idempotency_key, null, failed_at, null, null, error_type, last_error, reason,
         result, skipped_until, skipped_count
    from job_run_history;

comment on column job_runs.limit_key is 'the limit key that it waits behind: its schedule''s own where concurrencyPolicy is not Allow';
comment on column job_runs.shared_limit_key is 'the limitKey of its schedule, where limit_key is the schedule''s own: it needs a slot of both';
