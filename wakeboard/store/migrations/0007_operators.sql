-- Operators: leader election, and the annotations that were executed.

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
  has_session boolean not null default false
);
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
  constraint "action_is_run-now_retry-dead_or_discard-dead" check (action in ('run-now', 'retry-dead', 'discard-dead')),
  constraint token_has_1_to_253_characters check (char_length(token) between 1 and 253)
);
create index action_tokens_requested on action_tokens (requested_at);
comment on table action_tokens is 'Annotations that were executed, each once.';
