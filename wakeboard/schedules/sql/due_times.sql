-- internal (called by due_definitions and filter_due_definitions)
-- What decides the due ticks of a schedule that was edited since the scheduler handled it: its times before each edit, and now, as JSON.

create or replace function wakeboard.due_times(def wakeboard.job_definitions)
returns text language plpgsql security definer
as $$
begin
  return (def.former_timings || former_timing(def, null))::text;
end
$$;
