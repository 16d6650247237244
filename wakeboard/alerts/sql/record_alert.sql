-- for: worker, operator
-- Records what an evaluation of a rule found: opens an alert or renews the open one (`is_firing`), or resolves it. Returns the id of the
-- alert; null if there was none to resolve, or if another process has claimed the rule since `claimed_at`. At most one alert of a rule is
-- open. `examples`: at most the first five are kept. With a `notification` (open, repeat or resolved) it also enqueues a run of the job
-- type wakeboard.alert for each of the `receivers`, in `queue`; but no repeat while an earlier notification of the alert is on its way to
-- it, and neither an opening nor a repeat while the rule is silenced (`silence_alert`). Alerts are kept as long as audit rows after they
-- were resolved. Raises 55P03 if another transaction has locked the open alert: at once if it has locked the row, after 100 ms if it has
-- inserted the alert and is still open. Nothing is recorded then; the next evaluation of the rule does it.
-- Example:
--   select wakeboard.record_alert('dead', '2026-11-01 12:00:00.123+00', true, '3 runs are dead', 3, '{"send_mail: Timeout (3)"}');

create or replace function wakeboard.record_alert(
  rule text, claimed_at timestamptz, is_firing boolean, summary text default '', value double precision default 0,
  examples text[] default '{}', notification text default null, receivers text[] default '{}', queue text default 'default')
returns bigint language plpgsql security definer
set lock_timeout = '100ms'
as $$
#variable_conflict use_column
declare
  present constant timestamptz := statement_timestamp();
  claimed_rule alert_rules;
  recorded bigint;
  wanted text;
  run bigint;
  expired bigint[];
  unlocked bigint[];
begin
  perform require_read_committed('record_alert');
  if is_firing is null or receivers is null or value in ('NaN', 'Infinity', '-Infinity')
     or array_ndims(examples) > 1 or array_position(examples, null) is not null then
    raise exception using errcode = '22023', message =
      'is_firing and receivers must not be null, value must be a finite number, and examples an array of texts without nulls';
  end if;
  select * into claimed_rule from alert_rules
   where name = record_alert.rule and evaluated_at = record_alert.claimed_at
     for no key update;
  if not found then
    return null;
  end if;
  perform from alerts where alerts.rule = record_alert.rule and resolved_at is null
      for no key update nowait;     -- a worker claims runs over the same connection
  if not is_firing then
    update alerts set resolved_at = present, resolution = 'recovered'
     where alerts.rule = record_alert.rule and resolved_at is null
    returning id into recorded;
    update alert_rules set silenced_until = null where name = claimed_rule.name and silenced_until = 'infinity';
  else
    update alerts
       set severity = claimed_rule.severity, summary = left(record_alert.summary, 500), examples = record_alert.examples[:5],
           value = record_alert.value, definition = claimed_rule.definition, seen_at = present
     where alerts.rule = record_alert.rule and resolved_at is null
    returning id into recorded;
    if not found then                        -- an INSERT for an alert that is open would use up an id each time
      insert into alerts (rule, severity, summary, examples, value, definition)
      values (record_alert.rule, claimed_rule.severity, left(record_alert.summary, 500), record_alert.examples[:5], record_alert.value,
              claimed_rule.definition)
      on conflict (rule) where resolved_at is null do nothing       -- the next evaluation renews it
      returning id into recorded;
    end if;
  end if;

  if recorded is not null and record_alert.notification is not null
     and (record_alert.notification = 'resolved' or coalesce(claimed_rule.silenced_until <= present, true)) then
    update alerts set notified_at = present where id = recorded;
    foreach wanted in array receivers loop
      continue when record_alert.notification = 'repeat' and exists (
        select from alert_deliveries as earlier join job_runs on job_runs.id = earlier.run_id
         where earlier.alert_id = recorded and earlier.receiver = wanted and job_runs.dead_at is null);
      insert into job_runs (job_type, payload, queue, priority, max_attempts, timeout_s, backoff_cap_s)
      values ('wakeboard.alert', jsonb_build_object('alert', recorded, 'receiver', wanted, 'notification', record_alert.notification),
              coalesce(record_alert.queue, 'default'), 5, 200, 60, 300)
      returning job_runs.id into run;
      insert into alert_deliveries (run_id, alert_id, receiver, notification) values (run, recorded, wanted, record_alert.notification);
    end loop;
  end if;
  expired := array(
    select old.id from alerts as old
     where old.resolved_at < present - (select min_audit_retention from installation)
     order by old.resolved_at limit 100 for update skip locked);
  if expired <> '{}' then
    unlocked := array(select run_id from alert_deliveries where alert_id = any (expired) order by run_id for update skip locked);
    delete from alerts as old                -- one with a locked delivery stays for a later call
     where old.id = any (expired)
       and not exists (select from alert_deliveries as made where made.alert_id = old.id and made.run_id <> all (unlocked));
  end if;
  return recorded;
end
$$;
