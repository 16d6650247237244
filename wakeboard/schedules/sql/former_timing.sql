-- internal (called by edit_schedule and keep_due_ticks)
-- When a schedule ticked before an edit at `until`: an element of former_timings. `next_run_at`: the cursor of the times that follow.

create or replace function wakeboard.former_timing(former wakeboard.job_definitions, until timestamptz, next_run_at timestamptz)
returns jsonb language plpgsql stable security definer
as $$
begin
  return jsonb_build_object(
    'schedule', former.schedule, 'time_zone', former.time_zone, 'dst_gap', former.dst_gap, 'dst_overlap', former.dst_overlap,
    'starts_at', former.starts_at, 'ends_at', former.ends_at, 'until', until, 'next_run_at', next_run_at);
end
$$;
