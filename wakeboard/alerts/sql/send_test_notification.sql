-- for: operator
-- Enqueues a run of the job type wakeboard.alert that sends a test message to a receiver, or calls the url of a heartbeat. `queue`: that of
-- the alerts file. The run has one attempt. Returns its id. Writes an audit row for it (see Audit), which `alert_delivery` reads.
-- Example:
--   select wakeboard.send_test_notification('team');

create or replace function wakeboard.send_test_notification(
  receiver text, queue wakeboard.queue_name default 'default', reason text default '', actor wakeboard.audit_actor default null,
  source wakeboard.acting_program default 'sql')
returns bigint language plpgsql security definer
as $$
declare
  made record;
begin
  if (char_length(receiver) between 1 and 63) is not true then
    perform refuse_argument('receiver', receiver, 'the name of a receiver or a heartbeat, of 1 to 63 characters');
  end if;
  insert into job_runs as run (job_type, payload, queue, priority, max_attempts, timeout_s)
  values ('wakeboard.alert', jsonb_build_object('receiver', receiver, 'notification', 'test'),
          coalesce(send_test_notification.queue, 'default'), 5, 1, 60)
  returning run.id, run.uuid into made;
  insert into audit_log (actor, source, action, run_id, run_uuid, scope, reason)
  values (coalesce(actor, session_user), source, 'send_test_notification', made.id, made.uuid, receiver,
          coalesce(left(send_test_notification.reason, 200), ''));
  return made.id;
end
$$;
