-- for: worker, operator
-- Records that the evaluations of the alert rules with these names, which were claimed at `claimed_at`, succeeded. If another process has
-- claimed a rule since, its evaluation has not succeeded yet: the rule then counts as unmeasured since `claimed_at` at the earliest.
-- Ignores rules that another transaction has locked. Returns how many it recorded.
-- Example:
--   select wakeboard.record_measured_rules('{dead}', '2026-11-01 12:00:00.123+00');

create or replace function wakeboard.record_measured_rules(names text[], claimed_at timestamptz)
returns integer language plpgsql security definer
set lock_timeout = '2s'
as $$
declare
  recorded integer;
begin
  perform require_read_committed('record_measured_rules');
  update alert_rules
     set unmeasured_since = case when evaluated_at > record_measured_rules.claimed_at
                                 then greatest(unmeasured_since, record_measured_rules.claimed_at) end
   where name = any (array(
     select name from alert_rules
      where name = any (names) and unmeasured_since is not null
      order by name
        for no key update skip locked));
  get diagnostics recorded = row_count;
  return recorded;
end
$$;
