-- The installation, what is paused in it, and which operator leads.

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
  min_audit_retention  interval not null default '400 days',
  created_at           timestamptz not null default statement_timestamp(),
  constraint there_is_one_installation_per_database check (only_row),
  constraint history_is_kept_for_1_to_3650_days check (min_history_retention between '1 day' and '3650 days'),
  constraint keys_are_kept_for_0_to_3650_days check (min_key_retention between '0' and '3650 days'),
  constraint keys_are_not_kept_longer_than_history check (min_key_retention <= min_history_retention),
  constraint dead_runs_are_kept_for_1_to_3650_days check (min_dead_retention between '1 day' and '3650 days'),
  constraint audit_rows_are_kept_for_1_to_3650_days check (min_audit_retention between '1 day' and '3650 days')
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
comment on column installation.min_audit_retention is 'audit rows and bulk actions are kept this long';

comment on table migrations is 'The migrations that have been applied, each once.';

-- A paused scope: none of its runs is claimed and none of its ticks becomes a run.
create table pauses (
  scope     text primary key,
  reason    text not null default '',
  paused_at timestamptz not null default statement_timestamp(),
  constraint "scope_is_all_or_queue_NAME_or_schedule_ID"
    check (scope = 'all' or scope ~ '^queue:.' or scope ~ '^schedule:[0-9]+$')
);
comment on table pauses is
  'What is paused: all, queue:NAME or schedule:ID. None of its runs is claimed and none of its ticks becomes a run.';

-- One row for each source. The term is the leader's fencing token, as lease_epoch is a lease's: it grows with each new leader.
create table leadership (
  source      text primary key,
  term        bigint not null,
  holder      text not null,                 -- a process: its name and a random part
  release     text not null,
  expires_at  timestamptz not null,
  acquired_at timestamptz not null,
  -- Whether the leader's session holds the advisory lock of its source. The server releases that lock when the session ends, so a standby
  -- can take over without waiting until the lease has expired.
  has_session boolean not null default false,
  problem     text not null default ''
);
comment on column leadership.problem is 'why its last list or watch of JobSchedules failed; empty: it did not';
comment on table leadership is 'Which operator leads for a source, and its term.';

-- A token is executed once. Rows are kept for 90 days, longer than an annotation is left by mistake.
create table action_tokens (
  source       text not null,
  namespace    text not null,
  name         text not null,
  action       text not null,
  token        text not null,
  requested_at timestamptz not null default statement_timestamp(),
  executed     boolean not null,               -- false: the annotation was there when the schedule was first synced
  result       text not null,
  constraint a_token_is_executed_once primary key (source, namespace, name, action, token),
  constraint "action_is_run-now_retry-dead_discard-dead_or_backfill"
    check (action in ('run-now', 'retry-dead', 'discard-dead', 'backfill')),
  constraint token_has_1_to_253_characters check (char_length(token) between 1 and 253)
);
create index action_tokens_requested on action_tokens (requested_at);
comment on table action_tokens is 'Annotations that were executed, each once.';
