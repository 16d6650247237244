-- Finished runs.

-- Partitioned by week; nothing is updated, so that old partitions can be dropped.
create table job_run_history (
  id                    bigint not null,
  uuid                  uuid not null,
  scheduled_for         timestamptz not null,
  run_at                timestamptz not null,
  created_at            timestamptz not null,
  started_at            timestamptz not null,
  finished_at           timestamptz not null,
  locked_by             bigint not null,               -- the worker whose completion was accepted; 0: no worker ran it
  lease_epoch           bigint not null,
  status                run_status not null,
  trigger               run_trigger not null,
  backoff_strategy      backoff_strategy not null,
  backoff_base_s        integer not null,
  backoff_cap_s         integer not null,
  timeout_s             integer not null,
  attempts              integer not null,
  max_attempts          integer not null,
  crash_count           integer not null,
  release_count         integer not null,
  priority              smallint not null,
  queue                 text not null,
  job_type              text not null,
  payload               jsonb not null,
  definition_id         bigint,
  definition_generation bigint,
  schedule              text,
  limit_key             text,
  idempotency_key       text,
  failed_at             timestamptz,
  error_type            text,
  last_error            text,
  reason                text,
  result                jsonb,
  skipped_until         timestamptz,                   -- the last one of a range of skipped ticks, which begins at scheduled_for
  skipped_count         bigint,
  constraint a_finished_run_is_succeeded_cancelled_skipped_or_dead check (status >= 'dead'),
  constraint only_a_skipped_row_is_a_range check ((skipped_count is not null) <= (status = 'skipped'))
) partition by range (finished_at);

create index job_run_history_id on job_run_history (id);
create index job_run_history_definition on job_run_history (definition_id, finished_at) where definition_id is not null;
-- job_run_history is appended in finished_at order, so a BRIN index is enough to count the runs that ended lately.
create index job_run_history_finished on job_run_history using brin (finished_at) with (pages_per_range = 32, autosummarize = on);

comment on table job_run_history is 'Finished runs: succeeded, cancelled, skipped, or dead and discarded. Partitioned by week; nothing is updated.';
comment on column job_run_history.reason is 'why the run was cancelled, skipped or discarded';
comment on column job_run_history.skipped_count is 'the number of skipped ticks from scheduled_for to skipped_until';

create view all_runs as
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
comment on view all_runs is 'Live and finished runs together.';
