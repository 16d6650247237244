-- The rule that each alert is about, as it was evaluated last, and other versions of a rule that processes have.
-- locks: alert_rules, alerts

alter table alerts add column definition jsonb;
comment on column alerts.definition is 'the rule as it was when the alert was last seen firing; null: of before this column';

alter table alert_rules
  add column other_definition jsonb,
  add column other_at timestamptz,
  add constraint "other_definition_is_an_object_of_at_most_8_KiB"
    check (jsonb_typeof(other_definition) = 'object' and pg_column_size(other_definition) <= 8192),
  add constraint another_version_has_a_time check ((other_definition is null) = (other_at is null));
comment on column alert_rules.other_definition is 'another version of the rule, which a process had at other_at: processes have different files, or the file has changed';
