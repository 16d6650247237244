-- Adds the first claim of an alert rule since it was last measured. Heartbeats stop if it is too long ago.
-- locks: alert_rules
alter table alert_rules add column unmeasured_since timestamptz;
comment on column alert_rules.unmeasured_since is 'the first claim since the newest evaluation that succeeded; null if no process has claimed the rule since then';
