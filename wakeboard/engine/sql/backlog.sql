-- for: scaler, viewer, operator, worker
-- How much work the workers of these queues have, now and `within_s` seconds from now, for autoscalers. For each queue: `due`, runs that
-- execute or are due; `soon`, runs that become due within `within_s`; `ticks`, schedules whose next tick is due by then and not enqueued
-- yet. Runs that no worker may claim are left out: dead ones, those of a paused queue or schedule, those with a timeout over
-- `max_timeout_s`, and those that wait for a slot of their limit keys, or for a unit of its rate limit that is not free within `within_s`.
-- Runs that execute count until their end, so that an autoscaler does not stop their workers. It reads at most `scan_limit` rows of each
-- queue and priority, of the limit keys and of the schedules: larger numbers are lower bounds, and the cost does not depend on the length
-- of the queue.
-- Example:
--   select sum(due + soon + ticks) from wakeboard.backlog('{default}', 60);

create or replace function wakeboard.backlog(
  queues wakeboard.queue_array, within_s wakeboard.horizon_s default 60,
  max_timeout_s wakeboard.longest_timeout_s default 2678400, scan_limit wakeboard.scan_size default 1000)
returns table (queue text, due bigint, soon bigint, ticks bigint) language plpgsql stable security definer
set lock_timeout = '1s'
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
#variable_conflict use_column
declare
  present constant timestamptz := statement_timestamp();
  horizon constant timestamptz := present + make_interval(secs => within_s);
begin
  return query
  with served as materialized (
    select wanted.queue,
           exists (select from pauses where scope in ('all', 'queue:' || wanted.queue)) as is_paused
      from (select distinct unnest(queues) as queue) as wanted
  ), waiting as materialized (
    select due_limit_keys(queues, '', scan_limit) as key
  ), bound as materialized (           -- how many runs may start of each key, and of all keys that one key bounds
    select key, bounding_key, greatest(free_slots(key), 0) as slots,
           (select least(greatest(free_slots(bounding_key), 0), min(
                   case when rate_count is null and paused_until <= horizon then 1000000
                        when paused_until between horizon and present + interval '1 day' then 0
                        else free_units(limits) + ceil(within_s * rate_count / rate_period_s)::bigint end))
              from job_limits as limits where limits.key = bounding_key) as room
      from (select waiting.key, coalesce(own.shared_key, waiting.key) as bounding_key
              from waiting left join shared_limit_keys(array(select key from waiting)) as own using (key)) as keys
  ), found (queue, is_due, is_tick) as (
    select served.queue, next.run_at <= present, false
      from served cross join unnest(array[5, 4, 3, 2, 1]::smallint[]) as wanted (priority)
     cross join lateral (
       select run_at, timeout_s, locked_by
         from job_runs
        where job_runs.queue = served.queue and job_runs.priority = wanted.priority
          and limit_key is null and crash_count < 2 and dead_at is null and run_at <= horizon
        order by run_at, id
        limit scan_limit) as next
     where next.timeout_s <= max_timeout_s and (not served.is_paused or next.locked_by <> 0)
    union all
    select limited.queue, limited.run_at <= present, false
      from (select own_run.*, row_number() over (partition by own_run.bounding_key order by own_run.run_at, own_run.id) as place
              from (select served.queue, bound.*, next.run_at, next.id,
                           row_number() over (partition by bound.key order by next.run_at, next.id) as place_of_key
                      from bound cross join served
                     cross join lateral (
                       select run_at, id
                         from job_runs
                        where job_runs.queue = served.queue and limit_key = bound.key
                          and limit_key is not null and not holds_slot and crash_count < 2 and dead_at is null
                          and run_at <= horizon and timeout_s <= max_timeout_s
                        order by priority, run_at, id                       -- as the index has them
                        limit least(bound.slots, bound.room, scan_limit)) as next
                     where not served.is_paused) as own_run
             where own_run.place_of_key <= own_run.slots) as limited
     where limited.place <= limited.room
    union all
    select next.queue, true, false
      from (select job_runs.queue, timeout_s from job_runs where holds_slot and limit_key > '' order by limit_key limit scan_limit) as next
      join served on served.queue = next.queue
     where next.timeout_s <= max_timeout_s
    union all
    select next.queue, next.run_at <= present, false
      from (select job_runs.queue, run_at, timeout_s, locked_by
              from job_runs
             where crash_count >= 2 and dead_at is null and run_at <= horizon and not holds_slot
             order by run_at
             limit scan_limit) as next
      join served on served.queue = next.queue
     where next.timeout_s <= max_timeout_s and (not served.is_paused or next.locked_by <> 0)
    union all
    select next.queue, false, true
      from due_schedules(horizon, scan_limit) as due
      join job_definitions as next using (id)
      join served on served.queue = next.queue
     where next.timeout_s <= max_timeout_s
  )
  select served.queue::text, count(*) filter (where is_due and not is_tick),
         count(*) filter (where not is_due and not is_tick), count(*) filter (where is_tick)
    from served left join found on found.queue = served.queue
   group by served.queue
   order by served.queue;
end
$$;
