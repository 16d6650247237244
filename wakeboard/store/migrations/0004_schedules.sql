-- Schedules, as the JobSchedule resources declare them.

create table job_definitions (
  id                  bigint generated always as identity primary key,
  source              text not null,                 -- 'k8s:<cluster uid>' or 'file:<name>'
  namespace           text not null,
  name                text not null,
  uid                 text not null default '',      -- of the Kubernetes object; '' for a file
  origin              text not null default '',
  labels              jsonb not null default '{}',
  generation          bigint not null default 1,
  spec_hash           text not null,
  job_type            job_type_name not null,
  payload             run_payload not null default '{}',
  queue               queue_name not null default 'default',
  priority            run_priority not null default 3,
  schedule            text,                          -- the cron expression as written; null: only on demand
  cron_fields         text,                          -- the same, compiled: a waking worker parses no cron expression
  time_zone           text not null default 'Etc/UTC',
  dst_gap             text not null default 'RunAfter',
  dst_overlap         text not null default 'First',
  jitter_s            integer not null default 0,
  concurrency_policy  text not null default 'Allow',
  limit_key           limit_key_name,                -- shared with other schedules; null: the schedule's own, if it needs one
  catch_up            text not null default 'Latest',
  catch_up_limit      integer not null default 100,
  starting_deadline_s integer,
  suspend_after_dead  integer,
  max_attempts        attempt_limit not null default 5,
  backoff_strategy    backoff_strategy not null default 'exponential',
  backoff_base_s      duration_s not null default 10,
  backoff_cap_s       duration_s not null default 3600,
  timeout_s           duration_s not null default 600,
  suspended           boolean not null default false,
  next_run_at         timestamptz,
  last_tick_at        timestamptz not null default 'epoch',
  schedule_error      text,                          -- why ticks cannot be computed; only this schedule stops
  tzdata_version      text not null default '',      -- the time zone data that computed next_run_at
  dead_counted_from   timestamptz,
  circuit_opened_at   timestamptz,
  circuit_probe_at    timestamptz,
  circuit_probe_id    bigint,
  circuit_probes      integer,
  has_dependents      boolean,
  last_synced_at      timestamptz not null default statement_timestamp(),
  created_at          timestamptz not null default statement_timestamp(),
  updated_at          timestamptz not null default statement_timestamp(),
  removed_at          timestamptz,
  constraint the_job_type_is_not_of_the_product check (job_type not like 'wakeboard.%' or refuse_value('reserved job_type', job_type)),
  constraint a_schedule_is_named_once_per_source unique (source, namespace, name),
  constraint "dst_gap_is_Skip_or_RunAfter" check (dst_gap in ('Skip', 'RunAfter')),
  constraint "dst_overlap_is_First_or_Both" check (dst_overlap in ('First', 'Both')),
  constraint "concurrency_policy_is_Allow_Forbid_Replace_or_Queue" check (concurrency_policy in ('Allow', 'Forbid', 'Replace', 'Queue')),
  constraint "catch_up_is_Skip_Latest_or_All" check (catch_up in ('Skip', 'Latest', 'All')),
  constraint jitter_is_not_negative check (jitter_s >= 0),
  constraint starting_deadline_is_at_least_1_second check (starting_deadline_s >= 1),
  constraint a_schedule_has_compiled_fields check ((schedule is null) = (cron_fields is null)),
  constraint origin_has_at_most_300_characters check (char_length(origin) <= 300),
  constraint "labels_are_an_object_of_at_most_8_KiB" check (jsonb_typeof(labels) = 'object' and pg_column_size(labels) <= 8192),
  constraint suspend_after_dead_is_1_to_100 check (suspend_after_dead between 1 and 100),
  constraint only_an_open_circuit_has_probes check (
    case when circuit_opened_at is null then num_nonnulls(circuit_probe_at, circuit_probe_id, circuit_probes) = 0
         else num_nonnulls(suspend_after_dead, circuit_probe_at, circuit_probes) = 3 end),
  constraint limit_key_is_a_name check (limit_key not like '%:%' or refuse_value('limit_key', limit_key))
) with (fillfactor = 80);

create index job_definitions_due on job_definitions (next_run_at, id)
  where removed_at is null and not suspended and schedule_error is null;
create index job_definitions_breakers on job_definitions (id) where suspend_after_dead is not null and removed_at is null;
create index job_definitions_open_circuits on job_definitions (id) where circuit_opened_at is not null and removed_at is null;

comment on table job_definitions is 'The schedules, one row for each JobSchedule. A removed schedule keeps its row (removed_at).';
comment on column job_definitions.origin is 'the object of a GitOps tool that declares the schedule, in words; empty if none is known';
comment on column job_definitions.labels is 'labels of the schedule, without those of tools';
comment on column job_definitions.next_run_at is 'the next tick to schedule; null: there is none';
comment on column job_definitions.last_tick_at is 'only grows; a tick at or before it is never scheduled';
comment on column job_definitions.suspend_after_dead is 'so many runs of ticks, dead one after another, open the circuit; null: never';
comment on column job_definitions.dead_counted_from is
  'runs that died until then do not count: a run succeeded, or a user resumed the schedule; null: all count';
comment on column job_definitions.circuit_opened_at is 'since when ticks create no runs; null: the circuit is closed';
comment on column job_definitions.circuit_probe_at is 'the first tick from then on becomes a run, the probe';
comment on column job_definitions.circuit_probe_id is 'the probe, until it has ended; null: there is none';
comment on column job_definitions.circuit_probes is 'how many probes have died';
comment on column job_definitions.has_dependents is 'schedules run after this one; null: none does. Its runs get the same value';

-- Append-only: SQL functions insert and the operator removes, so no row is contended.
create table definition_changes (
  definition_id bigint not null,
  changed_at    timestamptz not null default statement_timestamp()
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
comment on table definition_changes is 'Schedules whose status must be computed again. SQL functions insert; the operator removes.';

create table pending_removals (
  source       text primary key,
  names_hash   text not null,        -- of the list of schedules that would be removed
  count        integer not null,
  requested_at timestamptz not null default statement_timestamp(),
  confirmed_at timestamptz
);
comment on table pending_removals is 'Removals of many schedules at once that wait for a confirmation.';
