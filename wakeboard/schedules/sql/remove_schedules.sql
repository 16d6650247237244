-- internal (called by unschedule and unschedule_all)
-- Removes these schedules of applications, and returns how many were there: all of them or, after an error, none. Of each, the oldest due
-- tick, if SQL can compute it (due_tick) and another transaction has seen it, is recorded as skipped, with all due ticks after it if it is
-- one of an interval. Locks them in the order of their names. Raises 55P03 if another transaction keeps one of them, or one of their
-- waiting runs, locked for 2 seconds.

create or replace function wakeboard.remove_schedules(ids bigint[])
returns integer language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
set lock_timeout = '2s'
as $$
declare
  mine bigint[];
  batch bigint[];
  began constant timestamptz := clock_timestamp();
  def job_definitions;
  tick timestamptz;                          -- the oldest that is due
  every bigint;                              -- s
  further bigint;                            -- ticks that are due after it
  newest timestamptz;
begin
  loop
    mine := array(
      select known.id from job_definitions as known where known.id = any (ids) and coalesce(known.removed_at, 'infinity') = 'infinity'
       order by known.namespace collate "C", known.name collate "C" for update);          -- is null, by id: see enqueue_due_ticks
    exit when cardinality(mine) >= (
      select count(*) from job_definitions as known where known.id = any (ids) and coalesce(known.removed_at, 'infinity') = 'infinity');
  end loop;                                  -- a plain INSERT has just replaced the row of one
  for start in 1 .. cardinality(mine) by 1000 loop
    batch := mine[start : start + 999];
    for def in
      select * from (select * from job_definitions where id = any (batch) offset 0) as due      -- see enqueue_due_ticks
       where not due.suspended and due.schedule_error is null and due.next_run_at <= clock_timestamp() and not is_unseen(due)
    loop
      tick := due_tick(def, clock_timestamp());
      if tick is not null then
        every := case when def.schedule like 'every %' then extract(epoch from substr(def.schedule, 7)::interval) end;
        further := coalesce(floor(extract(epoch from least(clock_timestamp(), def.ends_at) - tick) / every), 0);
        newest := tick + further * make_interval(secs => coalesce(every, 0));
        perform enqueue_former_tick(def, tick, 'ScheduleRemoved', further + 1, newest);
        update job_definitions set last_tick_at = greatest(last_tick_at, newest) where id = def.id;
      end if;
    end loop;
    loop                                      -- a run of one may have begun to wait for a retry since remove_definitions looked
      batch := array(select id from unnest(batch) as left_over (id)
                     except select id from remove_definitions('app', batch) where answer = 'removed');
      exit when batch = '{}';
      perform refuse_locked() where clock_timestamp() > began + interval '2 s';
    end loop;
  end loop;
  return cardinality(mine);
exception when lock_not_available then
  perform refuse_locked_schedule(ids);
end
$$;
