-- Alerts: the rules that processes evaluate, and one row for each outage.

create table alert_rules (
  name         text collate "C" primary key,
  severity     text not null,
  definition   jsonb not null,                         -- the rule as its file declares it
  evaluated_at timestamptz not null default 'epoch',
  constraint alert_rule_is_named_in_up_to_63_characters check (char_length(name) between 1 and 63),
  constraint severity_is_info_warning_or_critical check (severity in ('info', 'warning', 'critical')),
  constraint "definition_is_an_object_of_at_most_8_KiB" check (jsonb_typeof(definition) = 'object' and pg_column_size(definition) <= 8192)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
comment on table alert_rules is 'The alert rules that processes evaluate. The files are authoritative: a row only says what was evaluated last.';
comment on column alert_rules.evaluated_at is 'the newest claim of an evaluation; record_alert accepts the results of this claim only';

create table alerts (
  id          bigint generated always as identity primary key,
  rule        text collate "C" not null,
  severity    text not null,
  summary     text not null,
  examples    text[] not null default '{}',
  value       double precision not null,
  opened_at   timestamptz not null default statement_timestamp(),
  seen_at     timestamptz not null default statement_timestamp(),
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
