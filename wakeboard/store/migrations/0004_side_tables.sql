-- What stands beside runs: attempts, steps, effects, keys, limits; and who works here.

create table job_attempts (
  run_id      bigint not null,
  lease_epoch bigint not null,
  attempt     integer not null,
  outcome     text not null,
  error_type  text,
  error       text,
  stack       text,
  locked_by   bigint not null,
  worker      text,
  started_at  timestamptz not null,
  ended_at    timestamptz not null default statement_timestamp(),
  constraint an_attempt_ends_once primary key (run_id, lease_epoch),
  constraint outcome_is_failed_crashed_or_timed_out check (outcome in ('failed', 'crashed', 'timed_out'))
);
create index job_attempts_ended on job_attempts (ended_at);

create table job_steps (
  run_id      bigint not null,
  name        text not null,
  lease_epoch bigint not null,                         -- of the attempt that wrote it last
  started_at  timestamptz not null default statement_timestamp(),
  finished_at timestamptz,                             -- null: begun, not done
  result      jsonb,
  constraint a_step_is_named_once_per_run primary key (run_id, name),
  constraint "a_step_result_is_at_most_64_KiB" check (pg_column_size(result) <= 65536)
);
create index job_steps_started on job_steps (started_at);

-- The effects ledger: the row and the effect commit together, or not at all.
create table job_effects (
  run_uuid    uuid not null,
  key         text not null,
  run_id      bigint not null,
  lease_epoch bigint not null,                         -- of the attempt that began it
  begun_at    timestamptz not null default statement_timestamp(),
  done_at     timestamptz,                             -- null: begun, and nobody has said that it was done
  constraint an_effect_happens_once_per_run primary key (run_uuid, key),
  constraint effect_key_has_1_to_256_characters check (char_length(key) between 1 and 256)
);
create index job_effects_begun on job_effects (begun_at);

create table job_keys (
  job_type     text not null,
  key          text not null,
  run_id       bigint not null,
  run_uuid     uuid not null,
  payload_hash text not null,
  created_at   timestamptz not null default statement_timestamp(),
  constraint an_idempotency_key_is_used_once_per_job_type primary key (job_type, key),
  constraint idempotency_key_has_1_to_256_characters check (char_length(key) between 1 and 256)
);
create index job_keys_created on job_keys (created_at);

create table job_limits (
  key         text primary key,
  max_running integer not null default 1,
  created_at  timestamptz not null default statement_timestamp(),
  said        boolean not null default false,          -- somebody said this limit; others are tidied away when unused
  constraint a_limit_is_at_least_0 check (max_running >= 0)
);

create table workers (
  nonce      bigint primary key,
  name       text not null,
  pool       text not null,
  host       text not null default '',
  version    text not null default '',
  queues     text[] not null,
  capacity   integer not null,
  lease_s    integer not null,
  started_at timestamptz not null default statement_timestamp(),
  last_seen  timestamptz not null default statement_timestamp(),
  constraint a_worker_is_not_nobody check (nonce <> 0)
) with (fillfactor = 50);

create table worker_types (
  job_type      text not null,
  queue         text not null,
  pool          text not null,
  last_known_at timestamptz not null default statement_timestamp(),
  primary key (job_type, queue, pool)
);
