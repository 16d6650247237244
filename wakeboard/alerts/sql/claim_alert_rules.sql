-- for: worker, operator
-- Claims the evaluation of up to `count` alert rules: of the `rules` of the caller's file, those that no process has claimed within their
-- interval, the longest ago first. A rule is an object with name, severity, interval_s (seconds) and definition (an object, kept for
-- display). Returns the claimed ones, with claimed_at, which `record_alert` requires, and the open alert of the rule if there is one. Never
-- waits for the claim of another process.
--
-- The caller calls `record_measured_rules` with those that it can measure.
--
-- A rule that differs from the one that was evaluated last is kept as its other_definition: processes have different files.
--
-- It also removes other rules that no process has claimed for an hour, and resolves their alerts ('rule removed'). A rule whose alert
-- another transaction has locked is removed by a later call.
-- Example:
--   select * from wakeboard.claim_alert_rules('[{"name": "dead", "severity": "warning", "interval_s": 15, "definition": {"dead": 1}}]');

create or replace function wakeboard.claim_alert_rules(rules jsonb, count wakeboard.row_count default 10000)
returns table (name text, claimed_at timestamptz, alert_id bigint, seen_at timestamptz, notified_at timestamptz)
  language plpgsql security definer
set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  present constant timestamptz := statement_timestamp();
  claimed text[];
  removed text[];
begin
  perform require_read_committed('claim_alert_rules');
  if jsonb_typeof(rules) = 'array' is not true or exists (
       select from jsonb_array_elements(rules) as rule
        where (jsonb_typeof(rule -> 'name') = 'string' and jsonb_typeof(rule -> 'severity') = 'string'
               and jsonb_typeof(rule -> 'definition') = 'object' and jsonb_typeof(rule -> 'interval_s') = 'number'
               and (rule ->> 'interval_s')::numeric between 0 and 86400
               and not jsonb_path_exists(rule -> 'definition', '$.**{4}')) is not true) then
    raise exception using errcode = '22023', message =
      'rules must be an array of objects with name, severity, definition (at most four levels) and interval_s (0 to 86400)';
  end if;
  begin
    perform set_config('lock_timeout', '50ms', true);
    loop
      insert into alert_rules (name, severity, definition)
      select rule.name, rule.severity, rule.definition
        from jsonb_to_recordset(rules) as rule (name text, severity text, definition jsonb)
       where not exists (select from alert_rules as known where known.name = rule.name)
       order by rule.name
       limit count                           -- these are claimed below, before another process can remove them
      on conflict do nothing;
      exit when found or count = 0 or not exists (   -- else another process has inserted the first of them meanwhile: the next ones follow
        select from jsonb_to_recordset(rules) as rule (name text)
         where not exists (select from alert_rules as known where known.name = rule.name));
    end loop;
  exception when lock_not_available then     -- another transaction is inserting them; the next call finds them
    null;
  end;
  perform set_config('lock_timeout', '2s', true);

  claimed := array(
    select known.name
      from alert_rules as known
      join jsonb_to_recordset(rules) as rule (name text, interval_s double precision) on rule.name = known.name
     where known.evaluated_at not between present - make_interval(secs => rule.interval_s)
                                      and present + interval '1 minute'    -- a claim that began after this one, not a clock that was ahead
     order by known.evaluated_at > present desc, known.evaluated_at, random()
     limit count
       for no key update of known skip locked);
  update alert_rules as known
     set severity = rule.severity, definition = rule.definition, evaluated_at = present,
         unmeasured_since = least(coalesce(known.unmeasured_since, present), present),
         other_definition = case when known.definition <> rule.definition then known.definition else known.other_definition end,
         other_at = case when known.definition <> rule.definition then known.evaluated_at else known.other_at end
    from jsonb_to_recordset(rules) as rule (name text, severity text, definition jsonb)
   where known.name = rule.name and known.name = any (claimed);
  -- of a process that was too late to evaluate it
  update alert_rules as known set other_definition = rule.definition, other_at = present
    from jsonb_to_recordset(rules) as rule (name text, definition jsonb)
   where known.name = any (array(
     select other.name from alert_rules as other
       join jsonb_to_recordset(rules) as given (name text, definition jsonb) on given.name = other.name
      where other.definition <> given.definition and coalesce(other.other_at, 'epoch') < present - interval '1 minute'
      order by other.name
        for no key update of other skip locked))
     and known.name = rule.name and known.definition <> rule.definition;

  if claimed <> '{}' or rules = '[]' then
    removed := array(
      select known.name from alert_rules as known
       where known.evaluated_at < present - interval '1 hour'
         and not exists (select from jsonb_to_recordset(rules) as rule (name text) where rule.name = known.name)
       order by known.name for update skip locked);
    update alerts set resolved_at = present, resolution = 'rule removed'
     where id = any (array(
       select id from alerts where rule = any (removed) and resolved_at is null order by id for no key update skip locked));
    delete from alert_rules as known         -- those whose alert another transaction has locked stay for a later call
     where known.name = any (removed) and not exists (select from alerts where rule = known.name and resolved_at is null);
  end if;

  return query
  select known.name::text, known.evaluated_at, alerts.id, alerts.seen_at, alerts.notified_at
    from alert_rules as known left join alerts on alerts.rule = known.name and alerts.resolved_at is null
   where known.name = any (claimed)
   order by known.name;
end
$$;
