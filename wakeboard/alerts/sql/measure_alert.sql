-- for: worker, operator
-- Measures the condition of an alert rule now. `condition` and the value (0: nothing is wrong):
-- <heads>
-- Deliveries of alerts (wakeboard.alert) count for failures and dead only if job_type_pattern is this name, so that no alert feeds itself.
-- The patterns restrict it to runs of queues, job types and schedules (namespace/name), as in LIKE; null: all. Paused queues are not late.
-- `examples`: at most five, the most important first.
-- Example:
--   select * from wakeboard.measure_alert('failures', '1 hour', queue_pattern => 'billing');

create or replace function wakeboard.measure_alert(
  condition text, span interval default null, share double precision default 0.95,
  queue_pattern text default null, job_type_pattern text default null, schedule_pattern text default null)
returns table (value double precision, examples text[]) language plpgsql stable security definer
set enable_seqscan = off set jit = off set plan_cache_mode = force_custom_plan set lock_timeout = '1s'
as $$
#variable_conflict use_column
declare
  present constant timestamptz := statement_timestamp();
  since constant timestamptz := present - case when span between '0' and '3650 days' then span end;
  a_scan constant integer := 10000;
begin
  if span not between '0' and '3650 days' then
    raise exception using errcode = '22023', message = format('span is %s; write an interval from 0 to 3650 days', span);
  end if;
  case condition
  <branches>
  else
    raise exception using errcode = '22023', message =
      format('condition is %s; write <names>', to_json(shortened(condition)));
  end case;
end
$$;
