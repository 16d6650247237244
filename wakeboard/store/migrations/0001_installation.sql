-- The installation, what is paused in it, and the domains that bound what callers may write.

-- One row: it identifies this database and records what maintenance has done.
create table installation (
  only_row             boolean primary key default true,
  id                   uuid not null default gen_random_uuid(),   -- distinguishes two databases (status.installation)
  min_code_version     text not null default '0.1.0',             -- the oldest release that may use this schema
  functions_by         text not null default '',                  -- the release that wrote the SQL functions in place
  functions_hash       text not null default '',
  functions_revision   integer not null default 0,                -- orders two texts of the functions of one release
  roles                jsonb not null default '{}',               -- granted roles: {"worker": "wakeboard_worker", …}
  reap_started_at      timestamptz not null default 'epoch',
  reap_completed_at    timestamptz not null default 'epoch',
  reap_skipped_at      timestamptz not null default 'epoch',
  expired_deleted_at   timestamptz not null default 'epoch',
  min_history_retention interval not null default '30 days',
  min_key_retention    interval not null default '7 days',
  min_dead_retention   interval,
  created_at           timestamptz not null default statement_timestamp(),
  constraint there_is_one_installation_per_database check (only_row),
  constraint history_is_kept_for_1_to_3650_days check (min_history_retention between '1 day' and '3650 days'),
  constraint keys_are_kept_for_0_to_3650_days check (min_key_retention between '0' and '3650 days'),
  constraint keys_are_not_kept_longer_than_history check (min_key_retention <= min_history_retention),
  constraint dead_runs_are_kept_for_1_to_3650_days check (min_dead_retention between '1 day' and '3650 days')
);
insert into installation default values;

comment on table installation is 'What this database is, who may use it, and when maintenance was last done. One row.';
comment on column installation.reap_started_at is 'when the last scan of all leases started';
comment on column installation.reap_completed_at is 'when the last scan of all leases started that ended and skipped no lease';
comment on column installation.reap_skipped_at is 'when a scan skipped an expired lease whose row was locked';
comment on column installation.expired_deleted_at is 'when delete_expired last found nothing left to delete';
comment on column installation.min_history_retention is 'finished runs are kept at least this long (set_retention)';
comment on column installation.min_key_retention is 'idempotency keys are kept at least this long after their run ended';
comment on column installation.min_dead_retention is 'dead runs are kept at least this long; null: forever';

-- A paused scope: none of its runs is claimed and none of its ticks becomes a run.
create table pauses (
  scope     text primary key,
  reason    text not null default '',
  paused_at timestamptz not null default statement_timestamp(),
  constraint "scope_is_all_or_queue_NAME_or_schedule_ID"
    check (scope = 'all' or scope ~ '^queue:.' or scope ~ '^schedule:[0-9]+$')
);
comment on table pauses is 'What is paused: all, queue:NAME or schedule:ID. None of its runs is claimed and none of its ticks becomes a run.';

-- CHECK constraints call these functions for an invalid value; the functions raise the error message. Their bodies are in
-- functions/refuse_value.sql and functions/check_payload.sql.
create function refuse_value(field text, value text) returns boolean language sql strict as 'select false';
create function check_payload(payload jsonb) returns boolean language sql strict as 'select false';

-- A lower-case identifier, as most job types are, equals its own quoted form: that test is cheaper than the pattern.
create domain job_type_name as text constraint job_type_is_a_name check (
  octet_length(value) <= 128
  and (ascii(value) > ascii('_') and quote_ident(value) = value or value ~ '^[A-Za-z0-9][A-Za-z0-9._/-]*$')
  or refuse_value('job_type', value));
create domain queue_name as text constraint queue_is_a_name check (
  value = 'default' or value ~ '^[A-Za-z0-9][A-Za-z0-9._/-]*$' and octet_length(value) <= 63 or refuse_value('queue', value));
-- 'schedule:N' is the key of one schedule, which enqueue_due_ticks and run_now write. No name contains a colon.
create domain limit_key_name as text constraint limit_key_is_a_name check (
  value ~ '^([A-Za-z0-9][A-Za-z0-9._/-]*|schedule:[0-9]+)$' and octet_length(value) <= 128 or refuse_value('limit_key', value));
create domain run_priority as smallint
  constraint priority_is_1_to_5_and_5_goes_first check (value between 1 and 5);
-- Small payloads are checked here, in a third of a microsecond. A document of up to 256 bytes cannot be nested 32 levels deep, but may
-- contain a number of thousands of digits.
create domain run_payload as jsonb constraint payload_is_bounded check (
  pg_column_size(value) <= 256 and jsonb_typeof(value) in ('object', 'array')
  and not value @? 'strict $.**{1 to last} ? (@.abs() > 9007199254740992)'
  or check_payload(value));
create domain attempt_limit as integer
  constraint max_attempts_is_1_to_1000 check (value between 1 and 1000);
create domain duration_s as integer
  constraint a_duration_is_1_second_to_31_days check (value between 1 and 2678400);
create type backoff_strategy as enum ('exponential', 'fixed');

comment on table migrations is 'The migrations that have been applied, each once.';
