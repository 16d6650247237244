-- Adds the time of the newest evaluation of each alert rule that succeeded. Heartbeats stop if it is too old.
alter table alert_rules add column measured_at timestamptz not null default statement_timestamp();
update alert_rules set measured_at = evaluated_at;
comment on column alert_rules.measured_at is 'the claim of the newest evaluation that succeeded; before the first, when the row was inserted';
