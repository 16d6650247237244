-- Dependencies: schedules that run after other schedules, and runs that wait for other runs.

create table schedule_dependencies (
  definition_id bigint not null,
  place         integer not null,
  parent_name   text not null,
  parent_id     bigint,
  outcome       text not null,
  ticks         text not null,
  constraint an_entry_of_after_has_one_place primary key (definition_id, place),
  constraint outcome_is_Succeeded_or_Ended check (outcome in ('Succeeded', 'Ended')),
  constraint ticks_is_Same_or_All check (ticks in ('Same', 'All'))
);
create index schedule_dependencies_parent on schedule_dependencies (parent_id) where parent_id is not null;
create index schedule_dependencies_missing on schedule_dependencies (parent_name) where parent_id is null;
comment on table schedule_dependencies is 'spec.after: the schedules (parents) that a schedule runs after, in the order of its entries.';
comment on column schedule_dependencies.parent_id is
  'of a schedule of the same source and namespace; null: there has been none of this name';

-- Append-only, like definition_changes.
create table ended_runs (
  run_id        bigint not null,
  definition_id bigint,
  scheduled_for timestamptz not null,
  outcome       text not null,
  ended_at      timestamptz not null default statement_timestamp(),
  constraint outcome_is_succeeded_or_ended check (outcome in ('succeeded', 'ended'))
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
comment on table ended_runs is 'Runs that others may have waited for, and that have ended. `enqueue_dependents` removes them.';
comment on column ended_runs.ended_at is 'when the row was appended';
comment on column ended_runs.definition_id is 'null: only runs wait for it, no schedule does';

-- Most ticks are recorded when their run is created, and updated once, at its end: there is room for that in the page, so no index changes.
create table schedule_ticks (
  definition_id bigint not null,
  scheduled_for timestamptz not null,
  recorded_at   timestamptz not null default statement_timestamp(),
  run_id        bigint,
  outcome       text,
  waits_for     text,
  since         timestamptz,
  constraint a_schedule_has_each_tick_once primary key (definition_id, scheduled_for),
  constraint outcome_is_succeeded_or_ended check (outcome in ('succeeded', 'ended')),
  constraint waits_for_is_check_ticks_or_run check (waits_for in ('check', 'ticks', 'run'))
) with (fillfactor = 50);
create index schedule_ticks_waiting on schedule_ticks (waits_for, definition_id) where waits_for is not null;
create index schedule_ticks_recorded on schedule_ticks (recorded_at);
comment on table schedule_ticks is
  'Ticks of schedules that have dependencies or dependents. A schedule with dependencies gets one run for each row.';
comment on column schedule_ticks.run_id is 'the run of the tick: the one that succeeded, or else the latest that is known';
comment on column schedule_ticks.outcome is 'null: no run of the tick has ended';
comment on column schedule_ticks.waits_for is
  'check: whether all ticks of a parent with ticks: All have ended must be found out; ticks: they have not; run: its run is not '
  'created yet, for example because its schedule is paused';
comment on column schedule_ticks.since is 'of a parent with ticks: All, the ticks after this moment belong to the tick';

create table run_dependencies (
  run_id     bigint not null,
  place      integer not null,
  parent_id  bigint not null,
  succeeded  boolean not null default false,
  created_at timestamptz not null default statement_timestamp(),
  constraint a_run_waits_once_for_each_run primary key (run_id, place, parent_id)
);
create index run_dependencies_unfinished on run_dependencies (parent_id) where not succeeded;
create index run_dependencies_created on run_dependencies (created_at);
comment on table run_dependencies is 'The runs (parents) that a run waits for or has waited for. place: of its entry in after, from 1.';
