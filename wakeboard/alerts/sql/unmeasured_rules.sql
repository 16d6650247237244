-- for: worker, operator
-- The alert rules that cannot be measured, of those in `rules`, which maps the name of each rule to a number of seconds: its evaluations
-- have failed for longer than that, or no process has claimed it within that time, or it has no row. `since`: the first claim since the
-- newest success, or the newest claim; null without a row.
-- Example:
--   select * from wakeboard.unmeasured_rules('{"dead": 90}');

create or replace function wakeboard.unmeasured_rules(rules jsonb)
returns table (name text, since timestamptz) language plpgsql stable security definer
set lock_timeout = '1s'
as $$
#variable_conflict use_column
declare
  present constant timestamptz := statement_timestamp();
begin
  if jsonb_typeof(rules) = 'object' is not true or exists (
       select from jsonb_each(rules) as rule (name, seconds)
        where (jsonb_typeof(seconds) = 'number' and seconds::text::numeric between 1 and 86400) is not true) then
    raise exception using errcode = '22023', message = 'rules must map names of rules to seconds (1 to 86400), such as {"dead": 90}';
  end if;
  return query
  select rule.name, coalesce(known.unmeasured_since, known.evaluated_at)
    from jsonb_each_text(rules) as rule (name, seconds)
    left join alert_rules as known on known.name = rule.name
   cross join lateral (select present - make_interval(secs => rule.seconds::double precision), present + interval '1 minute')
           as recent (starts_at, ends_at)        -- a clock that was ahead does not count, as in claim_alert_rules
   where known.name is null or known.evaluated_at not between starts_at and ends_at
      or known.unmeasured_since not between starts_at and ends_at
   order by rule.name;
end
$$;
