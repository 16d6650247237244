-- for: worker, operator
-- Records that the evaluations of the alert rules with these names succeeded, which began with the claim at `claimed_at`. Ignores rules that
-- another process has claimed since, and those that another transaction has locked. Returns how many it recorded.
-- Example:
--   select wakeboard.record_measured_rules('{dead}', '2026-11-01 12:00:00.123+00');

create or replace function wakeboard.record_measured_rules(names text[], claimed_at timestamptz)
returns integer language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp
set lock_timeout = '2s'
as $$
declare
  recorded integer;
begin
  perform require_read_committed('record_measured_rules');
  update alert_rules set measured_at = evaluated_at
   where name = any (array(
     select name from alert_rules
      where name = any (record_measured_rules.names) and evaluated_at = record_measured_rules.claimed_at
      order by name
        for no key update skip locked));
  get diagnostics recorded = row_count;
  return recorded;
end
$$;
