-- Alerts: the rules that processes evaluate, one row for each outage, and notifications about them.

create table alert_rules (
  name             text collate "C" primary key,
  severity         text not null,
  definition       jsonb not null,                     -- the rule as its file declares it
  evaluated_at     timestamptz not null default 'epoch',
  unmeasured_since timestamptz,
  other_definition jsonb,
  other_at         timestamptz,
  silenced_until   timestamptz,                        -- infinity: until its open alert is resolved
  constraint alert_rule_is_named_in_up_to_63_characters check (char_length(name) between 1 and 63),
  constraint severity_is_info_warning_or_critical check (severity in ('info', 'warning', 'critical')),
  constraint "definition_is_an_object_of_at_most_8_KiB" check (jsonb_typeof(definition) = 'object' and pg_column_size(definition) <= 8192),
  constraint "other_definition_is_an_object_of_at_most_8_KiB"
    check (jsonb_typeof(other_definition) = 'object' and pg_column_size(other_definition) <= 8192),
  constraint another_version_has_a_time check ((other_definition is null) = (other_at is null))
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
comment on table alert_rules is
  'The alert rules that processes evaluate. The files are authoritative: a row only says what was evaluated last.';
comment on column alert_rules.evaluated_at is 'the newest claim of an evaluation; record_alert accepts the results of this claim only';
comment on column alert_rules.unmeasured_since is
  'the first claim since the newest evaluation that succeeded; null if no process has claimed the rule since then';
comment on column alert_rules.other_definition is
  'another version of the rule, which a process had at other_at: processes have different files, or the file has changed';
comment on column alert_rules.silenced_until is 'openings and repeats are held back until then; infinity: until the open alert is resolved';

create table alerts (
  id          bigint generated always as identity primary key,
  rule        text collate "C" not null,
  severity    text not null,
  definition  jsonb not null,
  summary     text not null,
  examples    text[] not null default '{}',
  value       double precision not null,
  opened_at   timestamptz not null default statement_timestamp(),
  seen_at     timestamptz not null default statement_timestamp(),
  notified_at timestamptz,
  resolved_at timestamptz,
  resolution  text,
  constraint summary_has_at_most_500_characters check (char_length(summary) <= 500),
  constraint an_alert_has_at_most_5_examples check (cardinality(examples) <= 5),
  constraint "resolution_is_recovered_or_rule_removed" check (resolution in ('recovered', 'rule removed')),
  constraint a_resolved_alert_has_a_resolution check ((resolved_at is null) = (resolution is null))
) with (fillfactor = 80);
create unique index one_alert_is_open_for_each_rule on alerts (rule) where resolved_at is null;
create index alerts_resolved on alerts (resolved_at) where resolved_at is not null;
comment on table alerts is 'Outages that alert rules found, one row for each. At most one alert of a rule is open.';
comment on column alerts.seen_at is 'the newest evaluation that found the condition of the rule true';
comment on column alerts.value is 'what the rule measured then: runs, attempts, schedules, seconds, or how many times the usual duration';
comment on column alerts.definition is 'the rule as it was when the alert was last seen firing';
comment on column alerts.notified_at is 'when the newest notification that it is open was enqueued; null: none was';

-- Each delivery is a run of the job type wakeboard.alert.
create table alert_deliveries (
  run_id       bigint primary key,
  alert_id     bigint not null references alerts (id) on delete cascade,
  receiver     text not null,
  notification text not null,
  constraint "notification_is_open_repeat_or_resolved" check (notification in ('open', 'repeat', 'resolved')),
  constraint receiver_is_named_in_up_to_63_characters check (char_length(receiver) between 1 and 63)
);
create index alert_deliveries_alert on alert_deliveries (alert_id);
create unique index an_alert_opens_and_resolves_once_for_each_receiver on alert_deliveries (alert_id, receiver, notification)
  where notification <> 'repeat';
comment on table alert_deliveries is 'Notifications about alerts, and the run that delivers each.';

-- Urls that are called while no alert is open.
create table alert_heartbeats (
  name        text collate "C" primary key,
  enqueued_at timestamptz not null default 'epoch',
  run_id      bigint,
  constraint heartbeat_is_named_in_up_to_63_characters check (char_length(name) between 1 and 63)
) with (fillfactor = 50);
comment on table alert_heartbeats is 'When the newest run was enqueued that calls the url of each heartbeat.';
