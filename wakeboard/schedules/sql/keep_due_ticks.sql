-- internal (called by schedule_written)
-- The row of a declared schedule that a sync edits. Ticks that are due, because a pause holds them, stay due. If the edit changes when it
-- ticks, they are those of the former times (former_timings), as in edit_schedule. An edit that suspends the schedule drops them, and one
-- of a schedule whose ticks could not be computed drops those of these times.

create or replace function wakeboard.keep_due_ticks(former wakeboard.job_definitions, def wakeboard.job_definitions)
returns wakeboard.job_definitions language plpgsql security definer
as $$
declare
  present constant timestamptz := statement_timestamp();
begin
  if def.suspended or former.suspended or former.removed_at is not null then
    def.former_timings := null;
  elsif def.last_synced_at > former.last_synced_at and former.next_run_at <= present
        and (former.schedule_error is null or former.former_timings is not null)
        and def.next_run_at is distinct from former.next_run_at then
    def.next_run_at := former.next_run_at;
    if (former.schedule, former.time_zone, former.dst_gap, former.dst_overlap, former.starts_at, former.ends_at)
       is distinct from (def.schedule, def.time_zone, def.dst_gap, def.dst_overlap, def.starts_at, def.ends_at) then
      def.former_timings := add_former_timing(former, present);
      def.next_run_at := def.former_timings #>> '{0,since}';
    end if;
  end if;
  return def;
end
$$;
