-- for: operator
-- Reports the outcome of a delivery that `claim_alert_delivery` leased: 'sent' (with a `result`), 'failed' (retried after `delay_s`
-- seconds, or after the run's backoff if it is null) or 'released' (due again after `delay_s` seconds, and the attempt does not count).
-- Refuses runs of other job types. The lease decides, not the leadership, so that a message that was sent is not sent again by the next
-- leader. Returns 'accepted', 'locked' (another transaction has locked the run: report it again) or 'lost' (the lease is over).
-- Example:
--   select wakeboard.finish_alert_delivery(7, 1, 1, 'failed', 'DeliveryFailed', 'the receiver answered 503');

create or replace function wakeboard.finish_alert_delivery(
  worker wakeboard.worker_number, run_id wakeboard.run_number, epoch wakeboard.lease_number, outcome text, error_type text default '',
  error text default '',
  delay_s real default null, result jsonb default null)
returns text language plpgsql security definer
set lock_timeout = '2s'
as $$
declare
  refused bigint;
begin
  if exists (select from job_runs where id = run_id and job_type <> 'wakeboard.alert') then
    raise exception using errcode = '22023', message = format('run %s is not a delivery of an alert', run_id);
  end if;
  if outcome = 'sent' then
    refused := (select complete(worker, array[run_id::bigint], array[epoch::bigint],
                                case when result is not null then jsonb_build_object(run_id::text, result) end));
  elsif outcome = 'failed' then
    refused := (select fail(worker, array[run_id::bigint], array[epoch::bigint], array['failed'], array[error_type], array[error],
      array[''],
                            array[delay_s]));
  elsif outcome = 'released' then
    refused := (select release(worker, array[run_id::bigint], array[epoch::bigint], array[coalesce(delay_s, 0)], array[false],
      array['snoozed']));
  else
    raise exception using errcode = '22023', message = 'outcome must be sent, failed or released';
  end if;
  return case when refused is null then 'accepted'
              when exists (select still_leased(worker, array[run_id::bigint], array[epoch::bigint])) then 'locked'
              else 'lost' end;
end
$$;
