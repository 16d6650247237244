-- Who changed what, when, why and from where; and actions on many runs.

-- Only the SQL functions write here, each in the transaction of its action: both commit, or neither.
create table audit_log (
  id             bigint generated always as identity primary key,
  at             timestamptz not null default statement_timestamp(),
  actor          audit_actor not null,
  source         audit_source not null,
  database_user  text not null default session_user,
  action         text not null,
  run_id         bigint,
  run_uuid       uuid,
  new_run_id     bigint,                  -- the run that a replay created
  definition_id  bigint,
  schedule       text,                    -- namespace/name of the schedule
  scope          text,                    -- of a pause; a limit key; the source of a removal
  reason         text not null default '',
  detail         jsonb not null default '{}',
  bulk_action_id bigint,
  constraint action_is_the_name_of_a_function check (action ~ '^[a-z_]{1,40}$'),
  constraint scope_has_at_most_400_characters check (char_length(scope) <= 400),
  constraint reason_has_at_most_200_characters check (char_length(reason) <= 200),
  constraint "detail_is_an_object_of_at_most_8_KiB" check (jsonb_typeof(detail) = 'object' and pg_column_size(detail) <= 8192)
);
create index audit_log_at on audit_log (at);
create index audit_log_run on audit_log (run_id, id) where run_id is not null;
create index audit_log_new_run on audit_log (new_run_id, id) where new_run_id is not null;
create index audit_log_definition on audit_log (definition_id, id) where definition_id is not null;
create index audit_log_namespace on audit_log (split_part(schedule, '/', 1), id) where schedule is not null;
create index audit_log_actor on audit_log (actor, id);
create index audit_log_action on audit_log (action, id);
-- A bulk action has a row of its own and one for each of its runs. Lists can leave those of the runs out.
create index audit_log_outline on audit_log (id) where bulk_action_id is null or run_id is null;

comment on table audit_log is
  'Actions of administrators, one row for each run or other object that an action changed. Written in the transaction of the action.';
comment on column audit_log.actor is 'who acted, as the caller said; by default the database user';
comment on column audit_log.source is 'the program: cli, board, kubectl (an annotation), up or sql, as the caller said';
comment on column audit_log.database_user is 'the user of the database session';
comment on column audit_log.detail is 'the answer, the status or value before and after, and what else belongs to the action';

create table bulk_actions (
  id            bigint generated always as identity primary key,
  action        text not null,
  filter        text not null default '',             -- which runs, as it was shown to the user
  reason        text not null default '',
  actor         audit_actor not null,
  source        audit_source not null,
  database_user text not null default session_user,
  created_at    timestamptz not null default statement_timestamp(),
  total         integer not null,
  done          integer not null default 0,           -- runs with an answer
  refused       integer not null default 0,           -- those of them whose answer is 'refused: …'
  last_run_id   bigint not null default 0,            -- the runs up to this id have an answer
  cancelled_at  timestamptz,
  finished_at   timestamptz,                          -- no batch will follow: all runs have an answer, or it was cancelled
  constraint "action_is_cancel_retry_discard_or_replay" check (action in ('cancel', 'retry', 'discard', 'replay')),
  constraint filter_has_at_most_2000_characters check (char_length(filter) <= 2000),
  constraint reason_has_at_most_200_characters check (char_length(reason) <= 200),
  constraint a_bulk_action_has_0_to_1000000_runs check (total between 0 and 1000000),
  constraint no_more_runs_are_done_than_there_are check (refused between 0 and done and done <= total),
  constraint an_action_ends_when_all_is_done_or_it_is_cancelled
    check ((finished_at is not null) = (done = total or cancelled_at is not null))
);
create index bulk_actions_unfinished on bulk_actions (id) where finished_at is null;
comment on table bulk_actions is 'Actions on many runs, executed in batches. The runs are chosen once, when the action is created.';

create table bulk_action_runs (
  bulk_action_id bigint not null,
  run_id         bigint not null,
  answer         text,                                -- null: not executed yet
  constraint a_run_is_listed_once_per_bulk_action primary key (bulk_action_id, run_id)
) with (fillfactor = 60);
comment on table bulk_action_runs is 'The runs of each bulk action, and the answer for each.';
