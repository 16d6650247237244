-- Backfills: ticks of the past that become runs.

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
