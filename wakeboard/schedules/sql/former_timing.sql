-- internal (called by add_former_timing, due_times and edit_schedule)
-- When a schedule ticks, before an edit at `until` by this transaction: an element of former_timings. Null: until now. One that is
-- suspended, or whose ticks cannot be computed, has none.

create or replace function wakeboard.former_timing(def wakeboard.job_definitions, until timestamptz)
returns jsonb language plpgsql security definer
as $$
begin
  return jsonb_build_object(
    'schedule', case when not def.suspended and def.schedule_error is null then def.schedule end, 'time_zone', def.time_zone,
    'dst_gap', def.dst_gap, 'dst_overlap', def.dst_overlap, 'starts_at', def.starts_at, 'ends_at', def.ends_at, 'source', def.source,
    'until', until, 'transaction', case when until is not null then pg_current_xact_id()::text end);
end
$$;
