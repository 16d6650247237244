-- Live runs, and the history of those that have ended.

-- Claims must be HOT updates: no column that `claim` writes (status, attempts, started_at, locked_by, locked_until, lease_epoch) is in an
-- index or an index predicate, and each is NOT NULL and of fixed width, so that a claim never widens the row.
create table job_runs (
  id                    bigint generated always as identity primary key,
  uuid                  uuid not null default gen_random_uuid(),
  scheduled_for         timestamptz not null default statement_timestamp(),
  run_at                timestamptz not null default statement_timestamp(),
  created_at            timestamptz not null default statement_timestamp(),
  started_at            timestamptz not null default 'epoch',
  locked_until          timestamptz not null default 'epoch',
  locked_by             bigint not null default 0,
  lease_epoch           bigint not null default 0,
  status                run_status not null default 'queued',
  trigger               run_trigger not null default 'application',
  backoff_strategy      backoff_strategy not null default 'exponential',
  backoff_base_s        duration_s not null default 10,
  backoff_cap_s         duration_s not null default 3600,
  timeout_s             duration_s not null default 600,
  attempts              integer not null default 0,
  max_attempts          attempt_limit not null default 5,
  crash_count           integer not null default 0,
  release_count         integer not null default 0,
  priority              run_priority not null default 3,
  holds_slot            boolean not null default false,
  queue                 queue_name not null default 'default',
  job_type              job_type_name not null,
  payload               run_payload not null default '{}',
  definition_id         bigint,
  definition_generation bigint,
  schedule              text,                                    -- namespace/name of the schedule
  limit_key             limit_key_name,
  idempotency_key       text,
  start_before          timestamptz,
  cancel_requested_at   timestamptz,
  failed_at             timestamptz,
  dead_at               timestamptz,
  progress              real,
  error_type            text,
  last_error            text,
  last_stack            text,
  started_epoch         bigint,      -- the newest lease under which a handler started, or is assumed to have started; null: none
  cancel_reason         text,        -- of a request to cancel the run while it runs
  shared_limit_key      text,
  has_dependents        boolean,     -- the last column, and null for nearly all runs, so it takes no space; no claim reads it
  constraint only_a_limited_run_with_a_lease_holds_a_slot check (holds_slot = (limit_key is not null and locked_by <> 0)),
  constraint only_a_running_run_has_a_lease check ((status = 'running') = (locked_by <> 0)),
  constraint a_live_run_is_queued_running_failed_or_dead check (status <= 'dead'),
  constraint run_at_is_between_the_years_1970_and_3000 check (run_at >= 'epoch' and run_at < '3000-01-01 00:00+00')
) with (
  fillfactor = 50,
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0,
  autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000, vacuum_truncate = off
);

create index job_runs_claim on job_runs (queue, priority, run_at, id)
  where limit_key is null and crash_count < 2 and dead_at is null;
create index job_runs_limited on job_runs (queue, limit_key, priority, run_at, id)
  where limit_key is not null and not holds_slot and crash_count < 2 and dead_at is null;
create index job_runs_slots on job_runs (limit_key) where holds_slot;
create index job_runs_shared_slots on job_runs (shared_limit_key) where holds_slot and shared_limit_key is not null;
create index job_runs_quarantined on job_runs (run_at) where crash_count >= 2 and dead_at is null;
create index job_runs_dead on job_runs (dead_at) where dead_at is not null;
create index job_runs_failed on job_runs (failed_at) where failed_at is not null and dead_at is null;
create index job_runs_late on job_runs (start_before) where start_before is not null;
create index job_runs_definition on job_runs (definition_id) where definition_id is not null;
create unique index a_tick_becomes_one_run on job_runs (definition_id, scheduled_for) where trigger = 'tick';

comment on table job_runs is
  'Live runs: queued, running, failed (will be retried) or dead. Call wakeboard.enqueue, or INSERT job_type, payload, queue, priority, '
  'run_at and max_attempts.';
comment on column job_runs.scheduled_for is 'the tick that the run executes; of an application: when it was first due';
comment on column job_runs.run_at is 'the run is not claimed before; of a failed run: the next retry';
comment on column job_runs.started_at is 'of the latest attempt; epoch: never started';
comment on column job_runs.locked_until is 'the lease expires then, unless a heartbeat renews it; before 1971: not leased';
comment on column job_runs.locked_by is 'the worker process (workers.worker_id); 0: not leased';
comment on column job_runs.lease_epoch is 'grows at every claim and every revoke: the fencing token';
comment on column job_runs.holds_slot is 'a limited run with a lease; slots are counted from these rows';
comment on column job_runs.start_before is 'startingDeadlineSeconds: the run is skipped if it has not started by then';
comment on column job_runs.limit_key is 'the limit key whose queue the run waits in: its schedule''s own if concurrencyPolicy is not Allow';
comment on column job_runs.shared_limit_key is
  'the limitKey of its schedule, if limit_key is the schedule''s own: the run needs a slot of both';
comment on column job_runs.has_dependents is 'runs or schedules may wait for its end, so it is noted in ended_runs; null: none does';

-- What every claim returns to the worker.
create type claimed_run as (
  id bigint, lease_epoch bigint, job_type text, payload jsonb, attempts integer, max_attempts integer, timeout_s integer,
  scheduled_for timestamptz, run_at timestamptz, queue text, priority smallint, crash_count integer, uuid uuid,
  definition_id bigint, schedule text
);
comment on type claimed_run is
  'What a claim returns: id and lease_epoch name the lease; attempts includes this one; timeout_s counts from the start of the '
  'handler; scheduled_for is the tick, run_at when the run was due; definition_id and schedule are null for a run of an application.';

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

comment on table job_run_history is
  'Finished runs: succeeded, cancelled, skipped, or dead and discarded. Partitioned by week; nothing is updated.';
comment on column job_run_history.started_at is 'when the handler of the last attempt began';
comment on column job_run_history.finished_at is 'when the handler of a run that succeeded ended; of another one, when it moved here';
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
