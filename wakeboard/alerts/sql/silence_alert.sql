-- for: operator
-- Holds back openings and repeats of a rule's alerts until a time within 366 days; 'infinity': until its open alert is resolved. null ends
-- that. Those that were not sent yet are dropped. Once the silence is over, an alert that is still open is announced. The end of an alert
-- that was announced is announced at once. False: nothing changed. Otherwise it writes an audit row (see Audit), with `until` as its
-- detail.
-- Example:
--   select wakeboard.silence_alert('dead-runs', now() + interval '1 hour', 'the mail server is being moved');

create or replace function wakeboard.silence_alert(
  rule text, until timestamptz, reason text default '',
  actor wakeboard.audit_actor default null, source wakeboard.acting_program default 'sql')
returns boolean language plpgsql security definer
set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  present constant timestamptz := statement_timestamp();
  known alert_rules;
begin
  select * into known from alert_rules where name = silence_alert.rule for no key update;
  if not found then
    perform refuse_argument('rule', silence_alert.rule, 'the name of a rule that a process evaluates');
  elsif until <> 'infinity' and until not between present and present + interval '366 days' then
    perform refuse_argument('until', until::text, 'a time within the next 366 days, or infinity');
  elsif until = 'infinity' and not exists (select from alerts where alerts.rule = known.name and resolved_at is null) then
    perform refuse_argument('until', until::text, 'a time: no alert of this rule is open');
  elsif known.silenced_until is not distinct from until or until is null and known.silenced_until <= present then
    return false;
  end if;
  update alert_rules set silenced_until = until where name = known.name;
  insert into audit_log (actor, source, action, scope, reason, detail)
  values (coalesce(actor, session_user), source, 'silence_alert', known.name, coalesce(left(silence_alert.reason, 200), ''),
          jsonb_build_object('until', until));
  return true;
exception when lock_not_available then
  perform refuse_locked();
end
$$;
