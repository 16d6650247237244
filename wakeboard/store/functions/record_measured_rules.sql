-- for: worker, operator
-- Records that the evaluations of the alert rules with these names succeeded. Ignores those that another transaction has locked. Returns how
-- many it recorded.
-- Example:
--   select wakeboard.record_measured_rules('{dead}');

create or replace function wakeboard.record_measured_rules(names text[])
returns integer language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp
set lock_timeout = '2s'
as $$
declare
  recorded integer;
begin
  perform require_read_committed('record_measured_rules');
  update alert_rules set unmeasured_since = null
   where name = any (array(
     select name from alert_rules where name = any (names) order by name for no key update skip locked));
  get diagnostics recorded = row_count;
  return recorded;
end
$$;
