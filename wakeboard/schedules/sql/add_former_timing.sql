-- internal (called by edit_schedule and keep_due_ticks)
-- former_timings after an edit at `present`. The first element says after which moment (`since`) ticks wait for the scheduler. Times before
-- it have had no tick, if SQL can say so, and are left out.

create or replace function wakeboard.add_former_timing(former wakeboard.job_definitions, present timestamptz)
returns jsonb language plpgsql security definer
as $$
declare
  timing constant jsonb := former_timing(former, present);
  until constant timestamptz := former.former_timings #>> '{-1,until}';
begin
  return case
    when until <> (former.former_timings #>> '{0,since}')::timestamptz then former.former_timings || timing
    else jsonb_build_array(timing || jsonb_build_object('since', case
      when former.schedule is null or former.next_run_at > present is not false then present
      when former.schedule ~ '^(at|every) ' and due_tick(former, present) is null then present
      when former.cron_fields is null and former.schedule !~ '^(at|every) ' and former.next_run_at >= date_trunc('minute', present)
        then present                       -- a cron expression has ticks at whole minutes
      when until is not null then until
      when former.cron_fields is null then former.next_run_at
      else greatest(former.last_tick_at, former.next_run_at - interval '1 microsecond') end)) end;
end
$$;
