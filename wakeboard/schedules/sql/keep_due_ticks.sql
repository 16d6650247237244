-- internal (called by schedule_written)
-- The row of a declared schedule that a sync edits. Ticks that are due, because a pause holds them, stay due. If the edit changes when it
-- ticks, they are those of the former times (former_timings), as in edit_schedule. An edit that suspends the schedule drops them.

create or replace function wakeboard.keep_due_ticks(former wakeboard.job_definitions, def wakeboard.job_definitions)
returns wakeboard.job_definitions language plpgsql security definer
as $$
declare
  present constant timestamptz := statement_timestamp();
  following constant timestamptz := former.former_timings #>> '{-1,next_run_at}';
begin
  if def.suspended then
    def.former_timings := null;
  elsif def.last_synced_at > former.last_synced_at and former.removed_at is null and not former.suspended and former.schedule_error is null
        and former.next_run_at <= present and def.next_run_at is distinct from former.next_run_at then
    if (former.schedule, former.time_zone, former.dst_gap, former.dst_overlap, former.starts_at, former.ends_at)
       is distinct from (def.schedule, def.time_zone, def.dst_gap, def.dst_overlap, def.starts_at, def.ends_at) then
      def.former_timings := case
        when former.former_timings is null then jsonb_build_array(former_timing(former, present, def.next_run_at))
        when coalesce(following > present, true)                               -- the times between had no tick
          then jsonb_set(former.former_timings, '{-1,next_run_at}', coalesce(to_jsonb(def.next_run_at), 'null'))
        else jsonb_set(former.former_timings, '{-1,next_run_at}', to_jsonb(following - interval '1 microsecond'))
             || former_timing(former, present, def.next_run_at) end;
      def.next_run_at := case when former.former_timings is not null then former.next_run_at
                              else greatest(former.last_tick_at, former.next_run_at - interval '1 microsecond') end;
    else
      def.next_run_at := former.next_run_at;
    end if;
  end if;
  return def;
end
$$;
