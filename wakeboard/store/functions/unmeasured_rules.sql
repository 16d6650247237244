-- for: worker, operator
-- Those of the alert `rules` (objects with name and interval_s, seconds) that cannot be measured: the newest evaluation that succeeded ended
-- more than two intervals and a minute ago (`measured_at`), or no process has claimed the rule (null).
-- Example:
--   select * from wakeboard.unmeasured_rules('[{"name": "dead", "interval_s": 15}]');

create or replace function wakeboard.unmeasured_rules(rules jsonb)
returns table (name text, measured_at timestamptz) language plpgsql stable security definer
set search_path = pg_catalog, wakeboard, pg_temp
set lock_timeout = '1s'
as $$
#variable_conflict use_column
declare
  present constant timestamptz := statement_timestamp();
begin
  if jsonb_typeof(rules) = 'array' is not true or exists (
       select from jsonb_array_elements(rules) as rule
        where (jsonb_typeof(rule -> 'name') = 'string' and jsonb_typeof(rule -> 'interval_s') = 'number'
               and (rule ->> 'interval_s')::numeric between 0 and 86400) is not true) then
    raise exception using errcode = '22023', message = 'rules must be an array of objects with name and interval_s (0 to 86400)';
  end if;
  return query
  select rule.name, known.measured_at
    from jsonb_to_recordset(rules) as rule (name text, interval_s double precision)
    left join alert_rules as known on known.name = rule.name
   where coalesce(known.measured_at, 'epoch') not between present - make_interval(secs => 2 * rule.interval_s + 60)
                                                      and present + interval '1 minute'    -- as in claim_alert_rules
   order by rule.name;
end
$$;
