-- for: worker, operator
-- Records that the evaluations of the alert rules with these names, which were claimed at `claimed_at`, succeeded. Ignores rules that another
-- transaction has locked, and a later success that is known. Returns how many it recorded.
-- Example:
--   select wakeboard.record_measured_rules('{dead}', '2026-11-01 12:00:00.123+00');

create or replace function wakeboard.record_measured_rules(names text[], claimed_at timestamptz)
returns integer language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp
set lock_timeout = '2s'
as $$
declare
  present constant timestamptz := statement_timestamp();
  recorded integer;
begin
  perform require_read_committed('record_measured_rules');
  update alert_rules set measured_at = record_measured_rules.claimed_at
   where name = any (array(
     select name from alert_rules
      where name = any (record_measured_rules.names) and record_measured_rules.claimed_at <= present
        and measured_at not between record_measured_rules.claimed_at and present + interval '1 minute'    -- of a clock that was ahead
      order by name
        for no key update skip locked));
  get diagnostics recorded = row_count;
  return recorded;
end
$$;
