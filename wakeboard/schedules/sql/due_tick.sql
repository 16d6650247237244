-- internal (called by add_former_timing, edit_schedule and remove_schedules)
-- The oldest due tick of a schedule of an application at `present`. Null: none is due, or only the scheduler can say: SQL reads no cron
-- expression, and leaves ticks of former times to the scheduler.

create or replace function wakeboard.due_tick(def wakeboard.job_definitions, present timestamptz)
returns timestamptz language plpgsql immutable security definer
as $$
declare
  since timestamptz := def.next_run_at;                                               -- its ticks are those after it
  first constant bigint := coalesce(ceil(extract(epoch from def.starts_at)), 0);      -- s since 1970
  every bigint;                                                                       -- s
  tick timestamptz;
begin
  if def.cron_fields is not null and def.next_run_at <= present then
    return def.next_run_at;
  elsif def.next_run_at > present is not false then
    return null;
  elsif def.former_timings is not null then
    since := def.former_timings #>> '{-1,until}';
    if since is distinct from (def.former_timings #>> '{0,since}')::timestamptz then
      return null;                     -- those times had ticks
    end if;
  end if;
  since := greatest(since, def.last_tick_at);
  if def.schedule like 'at %' then
    since := def.last_tick_at;
    tick := substr(def.schedule, 4)::timestamptz;
  elsif def.schedule like 'every %' then
    every := extract(epoch from substr(def.schedule, 7)::interval);
    tick := to_timestamp(first + every * greatest(floor((extract(epoch from since) - first) / every) + 1, 0));
  end if;
  return case when tick > since and tick <= least(present, def.ends_at) then tick end;
end
$$;
