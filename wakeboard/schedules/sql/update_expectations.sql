-- for: worker, operator
-- Looks whether schedules that expect a success of each tick within a time (expect_success_within_s) have it: at most 1,000 of those where
-- this may have changed, and 2,000 of those that miss it. A tick misses it if its run is older than that and has not succeeded: it waits,
-- runs, or is dead. The time counts from the tick, or from when its run was created if that was later. A schedule misses its success
-- (success_missed_at) while so many ticks in a row do (alert_after_missed), or while its ticks cannot be computed and one is that old. A
-- newer tick that succeeds ends the row. Skipped and cancelled ticks, backfills, runs on demand, and ticks from before the expectation do
-- not count, and paused and suspended schedules are left as they are: those of a paused queue are not read, and one that is paused by
-- itself is not looked at again before `resume`. One that removed itself after its last tick counts until that has ended. Waits for no
-- lock. Returns whether others must still be looked at. A repeat changes nothing.
-- Example:
--   select wakeboard.update_expectations();

create or replace function wakeboard.update_expectations()
returns boolean language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
set lock_timeout = '2s'
as $$
declare
  present constant timestamptz := statement_timestamp();
  a_scan constant integer := 1000;
  some_id bigint;                      -- of many that miss their success, others are looked at each time
  due bigint[];
  mine bigint[];
  changed bigint[];
begin
  perform require_read_committed('update_expectations');
  select trunc(random() * max(id)) into some_id from job_definitions where success_missed_at is not null;
  if some_id is null and not exists (select from job_definitions where success_due_at <= present and not suspended)      -- nearly always
     or exists (select from pauses where scope = 'all') then
    return false;
  end if;
  due := array(
    with recursive used (queue) as (
      (select queue::text from job_definitions where success_due_at is not null and not suspended order by queue limit 1)
      union all
      select (select queue::text from job_definitions
               where success_due_at is not null and not suspended and queue > used.queue order by queue limit 1)
        from used where used.queue is not null
    )
    select def.id
      from used
     cross join lateral (
       select id, success_due_at from job_definitions
        where success_due_at <= present and not suspended and queue between used.queue and used.queue      -- with =, Postgres may read
        order by queue, success_due_at limit a_scan) as def                                                -- those of all queues
     where not exists (select from pauses where scope = 'queue:' || used.queue offset 0)
     order by def.success_due_at limit a_scan);
  mine := array(
    select def.id from job_definitions as def
     where def.id = any (due
             || array(select missing.id from job_definitions as missing
                       where missing.success_missed_at is not null and missing.id > some_id
                       order by missing.id limit a_scan)
             || array(select missing.id from job_definitions as missing
                       where missing.success_missed_at is not null and missing.id <= some_id
                       order by missing.id limit a_scan))
       and not def.suspended
       and not exists (select from pauses where scope in ('all', 'queue:' || def.queue) offset 0)
     order by def.id
       for no key update of def skip locked);
  update job_definitions as def set success_due_at = null                        -- in a snapshot from after the locks, which `resume` needs
   where def.id = any (mine) and def.success_due_at is not null
     and exists (select from pauses where scope = 'schedule:' || def.id offset 0);
  mine := array(select id from unnest(mine) as id where not exists (select from pauses where scope = 'schedule:' || id offset 0));
  with judged as (
    select def.id, within.span,
           missed.ticks >= coalesce(def.alert_after_missed, 1)
             or def.schedule_error is not null and def.next_run_at <= present - within.span as is_missed,
           least(pending.due_at, case when def.schedule_error is null then greatest(def.next_run_at, present) + within.span end) as due_at
      from job_definitions as def
     cross join lateral (select make_interval(secs => def.expect_success_within_s) as span) as within
     cross join lateral (               -- of the ticks that have not succeeded, the oldest that counts
       select min(run.scheduled_for) as tick from job_runs as run
        where run.definition_id = def.id and run.trigger = 'tick' and run.scheduled_for > def.success_expected_from) as oldest
     cross join lateral (
       select greatest(def.success_expected_from, max(late.scheduled_for)) as tick
         from (select past.scheduled_for, past.status, past.trigger from job_run_history as past
                where past.definition_id = def.id and past.finished_at >= oldest.tick
                order by past.finished_at desc limit a_scan) as late
        where late.status = 'succeeded' and late.trigger = 'tick') as succeeded
     cross join lateral (
       select count(*) as ticks
         from (select from job_runs as run
                where run.definition_id = def.id and run.trigger = 'tick' and run.scheduled_for > succeeded.tick
                  and run.scheduled_for <= present - within.span and run.created_at <= present - within.span
                limit coalesce(def.alert_after_missed, 1)) as late) as missed
     cross join lateral (
       select min(greatest(soon.scheduled_for, soon.created_at)) + within.span as due_at
         from (select run.scheduled_for, run.created_at from job_runs as run
                where run.definition_id = def.id and run.trigger = 'tick' and run.scheduled_for > succeeded.tick
                  and greatest(run.scheduled_for, run.created_at) > present - within.span
                order by run.scheduled_for limit a_scan) as soon) as pending
     where def.id = any (mine) and def.expect_success_within_s is not null
  ), updated as (
    update job_definitions as def
       set success_due_at = judged.due_at, success_missed_at = case when judged.is_missed then coalesce(def.success_missed_at, present) end
      from judged
     where def.id = judged.id
       and (def.success_due_at <= present or (def.success_missed_at is null) = judged.is_missed)
    returning def.id, def.success_missed_at is not null as is_missed
  )
  select array_agg(updated.id) into changed from updated join job_definitions as former on former.id = updated.id
   where (former.success_missed_at is not null) <> updated.is_missed;
  insert into definition_changes (definition_id) select unnest(changed);
  return cardinality(due) = a_scan;
end
$$;
