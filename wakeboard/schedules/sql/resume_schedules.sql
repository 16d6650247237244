-- for: scheduler
-- Ends the pauses of the schedules of applications whose names match `pattern` (see unschedule_all), each as `resume` does; it also closes
-- their circuits (suspend_after_dead). Returns how many it resumed.
-- Example:
--   select wakeboard.resume_schedules('customers/42-*');

create or replace function wakeboard.resume_schedules(pattern text, reason text default '')
returns integer language plpgsql security definer
set lock_timeout = '2s'
as $$
begin
  return coalesce((select count(*) from application_schedules(pattern, '', null) as found
                    where resume('schedule:' || found.id, resume_schedules.reason)), 0);
end
$$;
