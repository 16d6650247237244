-- for: worker, operator
-- What a run of the job type wakeboard.alert needs to know. `verdict`:
-- - send: send the notification;
-- - skip: the notification is not true: the alert was resolved before its `open` or `repeat` was sent, or it does not exist any more;
-- - wait: an earlier notification of the alert is being sent to this receiver, and `resolved` must come after it.
-- Example:
--   select * from wakeboard.alert_delivery(1, 'team', 'open');

create or replace function wakeboard.alert_delivery(alert_id bigint, receiver text, notification text)
returns table (
  verdict text, rule text, severity text, summary text, examples text[], opened_at timestamptz, resolved_at timestamptz)
language plpgsql stable security definer
set search_path = pg_catalog, wakeboard, pg_temp
set lock_timeout = '2s'
as $$
#variable_conflict use_column
begin
  return query
  select case when (alert.resolved_at is not null) <> (alert_delivery.notification = 'resolved') then 'skip'
              when alert_delivery.notification = 'resolved' and exists (
                select from alert_deliveries as earlier join job_runs as run on run.id = earlier.run_id
                 where earlier.alert_id = alert.id and earlier.receiver = alert_delivery.receiver
                   and earlier.notification <> 'resolved' and run.locked_by <> 0) then 'wait'
              else 'send' end,
         alert.rule::text, alert.severity, alert.summary, alert.examples, alert.opened_at, alert.resolved_at
    from alerts as alert where alert.id = alert_delivery.alert_id;
  if not found then
    return query
    select 'skip', '', '', '', '{}'::text[], null::timestamptz, null::timestamptz;
  end if;
end
$$;
