-- internal (called by due_definitions and filter_due_definitions)
-- What decides the due ticks of a schedule: its expression or, if it was edited since the scheduler handled it, its times before each edit
-- and now, as JSON (former_timings).

create or replace function wakeboard.due_times(def wakeboard.job_definitions)
returns text language plpgsql security definer
as $$
begin
  return case when def.former_timings is null then def.schedule else (def.former_timings || former_timing(def, null))::text end;
end
$$;
