-- The names of workers that have ended, so that a run tells which pod it succeeded in.

create table past_workers (
  worker_id bigint primary key,
  name      text not null,
  ended_at  timestamptz not null default statement_timestamp()
);
create index past_workers_ended on past_workers (ended_at);
comment on table past_workers is 'The names of worker processes that have ended, as long as the history may have runs of them.';
