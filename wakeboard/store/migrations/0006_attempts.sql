-- What belongs to runs: attempts, steps, effects, idempotency keys, unique windows and trace contexts.

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
  pod         text,
  cause       text,
  started_at  timestamptz not null,
  ended_at    timestamptz not null default statement_timestamp(),
  died        boolean not null default false,          -- the run became dead with this attempt
  constraint an_attempt_ends_once primary key (run_id, lease_epoch),
  constraint outcome_is_a_known_one check (outcome in ('failed', 'timed_out', 'crashed', 'cancelled', 'snoozed', 'released'))
);
create index job_attempts_ended on job_attempts (ended_at);
comment on table job_attempts is 'Attempts that did not succeed, and how each ended.';
comment on column job_attempts.cause is 'why the worker''s process ended, such as OOMKilled or Evicted; null: it was not reported';
comment on column job_attempts.pod is 'the pod of that process';

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
  run_uuid       uuid not null,
  key            text not null,
  run_id         bigint not null,
  lease_epoch    bigint not null,                      -- of the attempt that started it
  begun_epochs   bigint[] not null default '{}',
  finished_epoch bigint,
  started_at     timestamptz not null default statement_timestamp(),
  finished_at    timestamptz,                          -- null: started, and not reported as finished
  constraint an_effect_happens_once_per_run primary key (run_uuid, key),
  constraint effect_key_is_printable
    check (key ~ '^[^\x01-\x1f\x7f-\x9f]+$' and char_length(key) <= 256 or refuse_value('effect key', key))
);
create index job_effects_started on job_effects (started_at);
comment on table job_effects is 'Effects: each effect of a run happens once for each key.';
comment on column job_effects.begun_epochs is 'lease epochs of later attempts that began the effect again, while it was in doubt';
comment on column job_effects.finished_epoch is 'lease epoch of the attempt that reported the effect as done; null: the one that began it';

create table job_keys (
  job_type     text not null,
  key          text not null,
  run_id       bigint not null,
  run_uuid     uuid not null,
  payload_hash text not null,
  created_at   timestamptz not null default statement_timestamp(),
  -- The role of the last SET ROLE, or else the one that logged in; `current_user` is the owner of the functions. A key is no right to the
  -- run that has it: only this role gets the run's uuid.
  created_by   text not null default case current_setting('role') when 'none' then session_user::text else current_setting('role') end,
  constraint an_idempotency_key_is_used_once_per_job_type primary key (job_type, key),
  constraint idempotency_key_is_printable
    check (key ~ '^[^\x01-\x1f\x7f-\x9f]+$' and char_length(key) <= 256 or refuse_value('idempotency_key', key))
);
create index job_keys_created on job_keys (created_at);
comment on table job_keys is 'Idempotency keys, and the run of each.';

-- Unique windows: for a time, one run of a job type has the values of the keys that `enqueue` names.
create table job_unique_keys (
  job_type     text not null,
  key          bytea not null,                         -- a hash of the values (unique_key)
  run_id       bigint not null,
  run_uuid     uuid not null,
  unique_until timestamptz not null,
  -- As in job_keys.
  created_by   text not null default case current_setting('role') when 'none' then session_user::text else current_setting('role') end,
  constraint a_unique_key_has_one_run_per_job_type primary key (job_type, key)
);
create index job_unique_keys_until on job_unique_keys (unique_until);
comment on table job_unique_keys is 'Unique windows (unique_for), and the run of each.';
comment on column job_unique_keys.unique_until is 'from then on, another enqueue creates another run';

-- Of the enqueue (W3C). Only workers with OpenTelemetry read this table.
create table job_trace_contexts (
  run_id      bigint primary key,
  traceparent text not null,
  tracestate  text,
  created_at  timestamptz not null default statement_timestamp(),
  constraint traceparent_is_55_characters check (char_length(traceparent) = 55),
  constraint tracestate_is_at_most_512_characters check (char_length(tracestate) <= 512)
);
create index job_trace_contexts_created on job_trace_contexts (created_at);
comment on table job_trace_contexts is 'The trace contexts (W3C) of the enqueues of runs.';
