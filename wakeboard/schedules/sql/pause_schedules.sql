-- for: scheduler
-- Pauses the schedules of applications whose names match `pattern` (see unschedule_all), each as `pause` does: they create no runs until
-- `resume_schedules`. Then catch_up decides about the missed ticks. Returns how many it paused: others were paused already. A removed
-- schedule that is created again is paused still.
-- Example:
--   select wakeboard.pause_schedules('customers/42-*', 'the bill is not paid');

create or replace function wakeboard.pause_schedules(pattern text, reason text default '')
returns integer language plpgsql security definer
set lock_timeout = '2s'
as $$
declare
  schedule_id bigint;
  paused integer := 0;
begin
  for schedule_id in select found.id from application_schedules(pattern, '', null) as found loop
    begin
      paused := paused + pause('schedule:' || schedule_id, reason)::integer;
    exception when invalid_parameter_value then
      if exists (select from job_definitions where id = schedule_id and removed_at is null) then
        raise;
      end if;                                -- it has been removed since
    end;
  end loop;
  return paused;
end
$$;
