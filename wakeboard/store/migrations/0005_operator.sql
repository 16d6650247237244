-- The operator: who leads for a source, and which actions were asked for by annotation.

-- One row for each source. The term is the leader's fence, as the epoch is a lease's: it grows whenever somebody else leads.
create table leadership (
  source     text primary key,
  term       bigint not null,
  holder     text not null,                 -- a process: its name and a random part
  release    text not null,
  held_until timestamptz not null,
  taken_at   timestamptz not null
);

-- A token is acted upon once. It is kept for 90 days, longer than anybody leaves an annotation by mistake.
create table action_tokens (
  source    text not null,
  namespace text not null,
  name      text not null,
  action    text not null,
  token     text not null,
  asked_at  timestamptz not null default statement_timestamp(),
  acted     boolean not null,               -- false: it was there when the schedule was first seen
  result    text not null,
  constraint a_token_is_acted_upon_once primary key (source, namespace, name, action, token),
  constraint "action_is_run-now_retry-dead_or_discard-dead" check (action in ('run-now', 'retry-dead', 'discard-dead')),
  constraint token_has_1_to_253_characters check (char_length(token) between 1 and 253)
);
create index action_tokens_asked on action_tokens (asked_at);

-- How many runs ended since an operator last looked: history grows in the order of finished_at, so a sketch of it is enough.
create index job_run_history_finished on job_run_history using brin (finished_at) with (pages_per_range = 32, autosummarize = on);
