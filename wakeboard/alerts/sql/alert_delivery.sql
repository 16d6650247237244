-- for: worker, operator
-- What a run of the job type wakeboard.alert delivers: what was recorded for it by `record_alert` (open, repeat or resolved), by
-- `enqueue_heartbeats` (heartbeat) or by `send_test_notification` (test). The payload of the run decides nothing.
-- Returns no row if nothing was recorded, as for a replay: then the run delivers nothing. `verdict`:
-- - send: send the notification;
-- - skip: the notification is not true: the alert was resolved or silenced before its `open` or `repeat` was sent;
-- - wait: an earlier notification of the alert is being sent to this receiver, and `resolved` must come after it.
-- Example:
--   select * from wakeboard.alert_delivery(1);

create or replace function wakeboard.alert_delivery(run_id wakeboard.run_number)
returns table (
  verdict text, receiver text, notification text, alert_id bigint, rule text, severity text, summary text, examples text[],
  opened_at timestamptz, resolved_at timestamptz)
language plpgsql stable security definer
set lock_timeout = '2s'
as $$
#variable_conflict use_column
begin
  return query
  select case when (alert.resolved_at is not null) <> (sent.notification = 'resolved') then 'skip'
              when sent.notification <> 'resolved' and exists (
                select from alert_rules where name = alert.rule and silenced_until > statement_timestamp()) then 'skip'
              when sent.notification = 'resolved' and exists (
                select from alert_deliveries as earlier join job_runs as run on run.id = earlier.run_id
                 where earlier.alert_id = alert.id and earlier.receiver = sent.receiver
                   and earlier.notification <> 'resolved' and run.locked_by <> 0) then 'wait'
              else 'send' end,
         sent.receiver, sent.notification, alert.id, alert.rule::text, alert.severity, alert.summary, alert.examples, alert.opened_at,
         alert.resolved_at
    from alert_deliveries as sent join alerts as alert on alert.id = sent.alert_id
   where sent.run_id = alert_delivery.run_id
  union all
  select 'send', made.receiver, made.notification, 0, '', '', '', '{}', null, null
    from (select beat.name::text, 'heartbeat' from alert_heartbeats as beat where beat.run_id = alert_delivery.run_id
          union all
          select test.scope, 'test' from audit_log as test
           where test.run_id = alert_delivery.run_id and test.action = 'send_test_notification') as made (receiver, notification);
end
$$;
