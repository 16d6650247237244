-- What belongs to runs: attempts, steps, effects, idempotency keys and limits.

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
  died        boolean not null default false,          -- the run became dead with this attempt
  constraint an_attempt_ends_once primary key (run_id, lease_epoch),
  constraint outcome_is_failed_crashed_timed_out_snoozed_or_released
    check (outcome in ('failed', 'crashed', 'timed_out', 'snoozed', 'released'))
);
create index job_attempts_ended on job_attempts (ended_at);
comment on table job_attempts is 'Attempts that did not succeed, and how each ended.';

create table job_steps (
  run_id      bigint not null,
  name        text not null,
  lease_epoch bigint not null,                         -- of the attempt that wrote it last
  started_at  timestamptz not null default statement_timestamp(),
  finished_at timestamptz,                             -- null: started, not finished
  result      jsonb,
  constraint a_step_is_named_once_per_run primary key (run_id, name),
  constraint "a_step_result_is_at_most_64_KiB" check (pg_column_size(result) <= 65536),
  constraint step_name_is_printable
    check (name ~ '^[^\x01-\x1f\x7f-\x9f]+$' and char_length(name) <= 256 or refuse_value('step name', name))
);
create index job_steps_started on job_steps (started_at);
comment on table job_steps is 'Named parts of runs and their stored results.';

-- The row and the effect commit together, or not at all.
create table job_effects (
  run_uuid    uuid not null,
  key         text not null,
  run_id      bigint not null,
  lease_epoch bigint not null,                         -- of the attempt that started it
  started_at  timestamptz not null default statement_timestamp(),
  finished_at timestamptz,                             -- null: started, and not reported as finished
  constraint an_effect_happens_once_per_run primary key (run_uuid, key),
  constraint effect_key_is_printable
    check (key ~ '^[^\x01-\x1f\x7f-\x9f]+$' and char_length(key) <= 256 or refuse_value('effect key', key))
);
create index job_effects_started on job_effects (started_at);
comment on table job_effects is 'Effects: each effect of a run happens once for each key.';

create table job_keys (
  job_type     text not null,
  key          text not null,
  run_id       bigint not null,
  run_uuid     uuid not null,
  payload_hash text not null,
  created_at   timestamptz not null default statement_timestamp(),
  constraint an_idempotency_key_is_used_once_per_job_type primary key (job_type, key),
  constraint idempotency_key_is_printable
    check (key ~ '^[^\x01-\x1f\x7f-\x9f]+$' and char_length(key) <= 256 or refuse_value('idempotency_key', key))
);
create index job_keys_created on job_keys (created_at);
comment on table job_keys is 'Idempotency keys, and the run of each.';

create table job_limits (
  key         text primary key,
  max_running integer not null default 1,
  created_at  timestamptz not null default statement_timestamp(),
  is_explicit boolean not null default false,
  constraint a_limit_is_at_least_0 check (max_running >= 0),
  constraint limit_is_0_to_1000000 check (max_running <= 1000000)
);
comment on table job_limits is 'How many runs of a limit key run at once. Keys schedule:ID belong to the schedule with that id.';
comment on column job_limits.is_explicit is 'an administrator set it; other rows are deleted when unused';
