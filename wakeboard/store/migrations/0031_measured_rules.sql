-- When the condition of each alert rule was last measured without an error, so that heartbeats stop while a rule cannot be measured.
alter table alert_rules add column measured_at timestamptz not null default statement_timestamp();
update alert_rules set measured_at = evaluated_at;
comment on column alert_rules.measured_at is 'the newest claim whose evaluation succeeded; before the first, when the row was inserted';

drop function if exists enqueue_heartbeats(jsonb, text);       -- its successor has more parameters
