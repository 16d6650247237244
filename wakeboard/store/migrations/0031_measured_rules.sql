-- Adds when the newest evaluation of each alert rule that succeeded ended. Heartbeats stop if that is too long ago.
alter table alert_rules add column measured_at timestamptz not null default statement_timestamp();
update alert_rules set measured_at = evaluated_at;
comment on column alert_rules.measured_at is 'when the newest evaluation that succeeded ended; before the first, when the row was inserted';
