-- for: worker, operator
-- Those of the alert `rules` (objects with name and interval_s, seconds) that cannot be measured: for two intervals and a minute no evaluation
-- succeeded though processes have claimed some, or no process has claimed one. `since`: the first claim since the last success, or the last
-- claim; null if there was none.
-- Example:
--   select * from wakeboard.unmeasured_rules('[{"name": "dead", "interval_s": 15}]');

create or replace function wakeboard.unmeasured_rules(rules jsonb)
returns table (name text, since timestamptz) language plpgsql stable security definer
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
  select rule.name, coalesce(known.unmeasured_since, known.evaluated_at)
    from jsonb_to_recordset(rules) as rule (name text, interval_s double precision)
    left join alert_rules as known on known.name = rule.name
   cross join lateral (select present - make_interval(secs => 2 * rule.interval_s + 60), present + interval '1 minute')
           as recent (starts_at, ends_at)        -- a clock that was ahead does not count, as in claim_alert_rules
   where known.name is null or known.evaluated_at not between starts_at and ends_at
      or known.unmeasured_since not between starts_at and ends_at
   order by rule.name;
end
$$;
