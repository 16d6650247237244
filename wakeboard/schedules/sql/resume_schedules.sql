-- for: scheduler
-- Ends the pauses of the schedules of applications whose names match `pattern` (see unschedule_all), each as `resume` does; it also closes
-- their circuits (suspend_after_dead). Returns how many it resumed.
-- Example:
--   select wakeboard.resume_schedules('customers/42-*');

create or replace function wakeboard.resume_schedules(pattern text, reason text default '')
returns integer language plpgsql security definer
set lock_timeout = '2s'
as $$
declare
  schedule_id bigint;
  resumed integer := 0;
begin
  for schedule_id in select found.id from application_schedules(pattern, '', null) as found loop
    if exists (select from job_definitions where id = schedule_id and removed_at is null)         -- it may have been removed since
       and resume('schedule:' || schedule_id, reason) then
      resumed := resumed + 1;
    end if;
  end loop;
  return resumed;
end
$$;
