-- Definitions: what people declared, one row for each JobSchedule.

create table job_definitions (
  id                  bigint generated always as identity primary key,
  source              text not null,                 -- 'k8s:<cluster uid>' or 'file:<name>'
  namespace           text not null,
  name                text not null,
  uid                 text not null default '',      -- of the Kubernetes object; '' for a file
  generation          bigint not null default 1,
  spec_hash           text not null,
  job_type            job_type_name not null,
  payload             run_payload not null default '{}',
  queue               queue_name not null default 'default',
  priority            run_priority not null default 3,
  schedule            text,                          -- the cron line as written; null: only on demand
  cron_fields         text,                          -- the same, compiled: a waking worker parses no cron line
  time_zone           text not null default 'Etc/UTC',
  dst_gap             text not null default 'RunAfter',
  dst_overlap         text not null default 'First',
  jitter_s            integer not null default 0,
  concurrency_policy  text not null default 'Allow',
  limit_key           limit_key_name,                -- shared with other schedules; null: the schedule's own, if it needs one
  catch_up            text not null default 'Latest',
  catch_up_limit      integer not null default 100,
  starting_deadline_s integer,
  max_attempts        attempt_limit not null default 5,
  backoff_strategy    backoff_strategy not null default 'exponential',
  backoff_base_s      duration_s not null default 10,
  backoff_cap_s       duration_s not null default 3600,
  timeout_s           duration_s not null default 600,
  suspended           boolean not null default false,
  next_run_at         timestamptz,                   -- the cursor: the next tick to be made; null: none will come
  last_tick_at        timestamptz not null default 'epoch',  -- only grows; a tick at or before it is never made
  tick_error          text,                          -- why ticks cannot be computed; such a definition stands still alone
  tzdata_version      text not null default '',      -- the zone data that computed the cursor
  seen_at             timestamptz not null default statement_timestamp(),  -- the last sync that met it
  created_at          timestamptz not null default statement_timestamp(),
  updated_at          timestamptz not null default statement_timestamp(),
  removed_at          timestamptz,
  constraint a_schedule_is_named_once_per_source unique (source, namespace, name),
  constraint "dst_gap_is_Skip_or_RunAfter" check (dst_gap in ('Skip', 'RunAfter')),
  constraint "dst_overlap_is_First_or_Both" check (dst_overlap in ('First', 'Both')),
  constraint "concurrency_policy_is_Allow_Forbid_Replace_or_Queue" check (concurrency_policy in ('Allow', 'Forbid', 'Replace', 'Queue')),
  constraint "catch_up_is_Skip_Latest_or_All" check (catch_up in ('Skip', 'Latest', 'All')),
  constraint jitter_is_not_negative check (jitter_s >= 0),
  constraint starting_deadline_is_at_least_1_second check (starting_deadline_s >= 1),
  constraint a_schedule_has_compiled_fields check ((schedule is null) = (cron_fields is null))
) with (fillfactor = 80);

create index job_definitions_due on job_definitions (next_run_at, id)
  where removed_at is null and not suspended and tick_error is null;

-- Whose status must be computed anew. Append-only: moves insert, the operator takes; no row is ever contended.
create table definition_changes (
  definition_id bigint not null,
  changed_at    timestamptz not null default statement_timestamp()
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- A removal of so many schedules at once that somebody must say yes to it.
create table removal_holds (
  source       text primary key,
  names_hash   text not null,        -- of the very list that would vanish
  count        integer not null,
  held_at      timestamptz not null default statement_timestamp(),
  confirmed_at timestamptz
);
