-- Backfills: ticks of the past that become runs.
-- locks: action_tokens

alter type run_trigger add value 'backfill';

create table backfills (
  id            bigint generated always as identity primary key,
  definition_id bigint not null,
  schedule      text not null,                         -- namespace/name of the schedule
  range_begin   timestamptz not null,                  -- the ticks from here on …
  range_end     timestamptz not null,                  -- … that are before this
  again         boolean not null,
  at_once       integer not null,
  total         integer not null,
  created       integer not null default 0,
  reason        text not null default '',
  actor         audit_actor not null,
  source        audit_source not null,
  database_user text not null default session_user,
  created_at    timestamptz not null default statement_timestamp(),
  paused_at     timestamptz,
  cancelled_at  timestamptz,
  finished_at   timestamptz,
  constraint a_range_ends_after_it_begins check (range_begin < range_end),
  constraint a_backfill_has_1_to_100000_runs check (total between 1 and 100000),
  constraint at_once_is_1_to_1000000 check (at_once between 1 and 1000000),
  constraint no_more_runs_are_created_than_there_are_ticks check (created between 0 and total),
  constraint reason_has_at_most_200_characters check (char_length(reason) <= 200),
  constraint a_cancelled_backfill_has_ended check (cancelled_at is null or finished_at is not null)
) with (fillfactor = 70);
create index backfills_unfinished on backfills (id) where finished_at is null;
create index backfills_definition on backfills (definition_id, id);
comment on table backfills is 'Ranges of past ticks that someone asked to run. `continue_backfills` creates the runs in batches.';
comment on column backfills.again is 'ticks that had run were chosen, too';
comment on column backfills.at_once is 'at most so many of its runs run at once';
comment on column backfills.created is 'how many of its ticks have become runs; a cancellation subtracts those that it cancelled';
comment on column backfills.finished_at is 'no run of it is unfinished and none will be created';

-- The ticks are chosen once, when the backfill is declared.
create table backfill_ticks (
  backfill_id   bigint not null,
  tick          timestamptz not null,
  definition_id bigint not null,
  run_id        bigint,                                -- null: no run yet
  constraint a_tick_is_listed_once_per_backfill primary key (backfill_id, tick)
) with (fillfactor = 80);
create unique index a_tick_waits_in_one_backfill on backfill_ticks (definition_id, tick) where run_id is null;
create index backfill_ticks_definition on backfill_ticks (definition_id, tick);
create index backfill_ticks_run on backfill_ticks (run_id) where run_id is not null;
comment on table backfill_ticks is 'The ticks of each backfill, and the run of each.';

alter table action_tokens drop constraint "action_is_run-now_retry-dead_or_discard-dead";
alter table action_tokens add constraint "action_is_run-now_retry-dead_discard-dead_or_backfill"
  check (action in ('run-now', 'retry-dead', 'discard-dead', 'backfill'));

-- backfill:N is the key of the runs of one backfill. The new pattern allows all that the former one does.
alter domain limit_key_name drop constraint limit_key_is_a_name;
alter domain limit_key_name add constraint limit_key_is_a_name check (
  value ~ '^([A-Za-z0-9][A-Za-z0-9._/-]*|(schedule|backfill):[0-9]+)$' and octet_length(value) <= 128
  or refuse_value('limit_key', value)) not valid;

create domain backfill_number as bigint check (
  value > 0 or refuse_argument('backfill', value::text, 'the id of a backfill'));
create domain backfill_tick_array as timestamptz[] check (
  cardinality(value) <= 1000000 and coalesce(array_ndims(value), 1) = 1 and array_position(value, null) is null
  and 'epoch' <= all (value) and '3000-01-01 00:00+00' > all (value)
  or refuse_argument('ticks', left(value::text, 60), 'an array of at most 1000000 times from 1970 to 2999'));
create domain backfill_limit as integer check (
  value between 1 and 1000000 or refuse_argument('at_once', value::text, 'a whole number from 1 to 1000000'));
revoke usage on type backfill_number, backfill_tick_array, backfill_limit from public;
