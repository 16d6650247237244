-- Adds since when an alert rule cannot be measured. Heartbeats stop if that lasts.
alter table alert_rules add column unmeasured_since timestamptz;
comment on column alert_rules.unmeasured_since is 'the first claim since the newest evaluation that succeeded; null if none was made since then';
