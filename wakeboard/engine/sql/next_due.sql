-- internal (called by fetch_runs)
-- Seconds until a run, or the tick of a schedule, becomes due for a worker of these queues and job types, or the rate limit of a due run
-- has a free unit, or `continue_backfills` will create runs. Null: none within `within_s`. Other runs that are due already do not count. It
-- reads at most 100 rows of each queue and priority, of the limit keys (`keys`, the first ones of due_limit_keys; null: not known) and of
-- the schedules, so the answer may be too large, but its cost is bounded. Workers poll as well. Most calls find nothing and cost what it
-- takes to set up the nodes of the plans: so what only limit keys need is a statement of its own.

create or replace function wakeboard.next_due(
  queues text[], job_types text[], within_s double precision, max_timeout_s integer default 2678400, keys text[] default null)
returns double precision language plpgsql stable security definer
set lock_timeout = '1s'
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
set plan_cache_mode = force_generic_plan     -- planning takes twenty times as long as the query
as $$
declare
  scan_limit constant integer := 100;
  horizon timestamptz := statement_timestamp() + make_interval(secs => within_s);
  soonest double precision;
  ended timestamptz;                   -- a maintenance pass may create or free runs: when the newest run that others wait for ended
  backfilling boolean;
begin
  select (select max(ended_at) from ended_runs           -- an older row waits for a transaction that has locked a schedule or a run
           where ended_at between statement_timestamp() - interval '1 minute' and statement_timestamp()),
         exists (select from backfills where finished_at is null)
    into ended, backfilling;
  if ended >= statement_timestamp() - interval '1 second' then
    return 0;
  end if;
  soonest := (
    select extract(epoch from min(soon.at) - statement_timestamp())
      from (
        select next.run_at as at
          from unnest(queues) as served (queue) cross join unnest(array[5, 4, 3, 2, 1]::smallint[]) as wanted (priority)
         cross join lateral (
           select run_at, job_type, timeout_s
             from job_runs
            where job_runs.queue = served.queue and job_runs.priority = wanted.priority
              and limit_key is null and crash_count < 2 and dead_at is null
              and run_at > statement_timestamp() and run_at <= horizon
            order by run_at, id
            limit scan_limit) as next
         where next.job_type = any (job_types) and next.timeout_s <= max_timeout_s
        union all
        select next.run_at
          from (select run_at, queue, job_type, timeout_s
                  from job_runs
                 where crash_count >= 2 and dead_at is null and run_at > statement_timestamp() and run_at <= horizon
                 order by run_at
                 limit scan_limit) as next
         where next.queue = any (queues) and next.job_type = any (job_types) and next.timeout_s <= max_timeout_s
        union all
        select next.next_run_at
          from (select next_run_at, queue, job_type, timeout_s
                  from job_definitions
                 where removed_at is null and not suspended and schedule_error is null
                   and next_run_at > statement_timestamp() and next_run_at <= horizon
                 order by next_run_at
                 limit scan_limit) as next
         where next.queue = any (queues) and next.job_type = any (job_types) and next.timeout_s <= max_timeout_s
      ) as soon);
  keys := coalesce(keys[:scan_limit], array(select due_limit_keys(queues, '', scan_limit)));
  if keys <> '{}' then
    soonest := least(soonest, (
      select extract(epoch from min(soon.at) - statement_timestamp())
        from (
          select next.run_at as at
            from unnest(keys) as waiting (key)
           cross join unnest(queues) as served (queue) cross join unnest(array[5, 4, 3, 2, 1]::smallint[]) as wanted (priority)
           cross join lateral (
             select run_at
               from job_runs
              where job_runs.queue = served.queue and limit_key = waiting.key and job_runs.priority = wanted.priority
                and limit_key is not null and not holds_slot and crash_count < 2 and dead_at is null
                and run_at > statement_timestamp() and run_at <= horizon
                and job_type = any (job_types) and timeout_s <= max_timeout_s
              order by run_at, id
              limit 1) as next
          union all
          select next.at                         -- a due run that waits for a unit of a rate limit, or for the end of a handler's pause
            from unnest(keys) as waiting (key)
            left join shared_limit_keys(keys) as own using (key)
           cross join lateral (
             select case when rate_count is null then paused_until
                         else greatest(advance_rate(bound, 0) - make_interval(
                                secs => (rate_burst - 1) * 1e0 * rate_period_s / rate_count), paused_until) end as at
               from job_limits as bound
              where bound.key = coalesce(own.shared_key, waiting.key)
                and (rate_count is not null or paused_until > statement_timestamp())) as next
           where next.at > statement_timestamp() and next.at <= horizon
             and exists (
               select from unnest(queues) as served (queue) cross join unnest(array[5, 4, 3, 2, 1]::smallint[]) as wanted (priority)
                cross join lateral (
                  select from job_runs
                   where job_runs.queue = served.queue and limit_key = waiting.key and job_runs.priority = wanted.priority
                     and limit_key is not null and not holds_slot and crash_count < 2 and dead_at is null
                     and run_at <= statement_timestamp()
                     and job_type = any (job_types) and timeout_s <= max_timeout_s
                   limit 1) as due)
        ) as soon));
  end if;
  if within_s >= 1 and coalesce(soonest, 1e9) > 1 and ended is not null then
    soonest := 1;
  end if;
  if within_s >= 1 and coalesce(soonest, 1e9) > 1 and backfilling then
    if exists (                                          -- `continue_backfills` will create runs, of the ones or the others of a schedule
         select from (
             select def.id, count(*) as backfills
               from backfills as job join job_definitions as def on def.id = job.definition_id
              where job.finished_at is null and job.paused_at is null and job.created < job.total and def.removed_at is null
                and def.queue = any (queues) and def.job_type = any (job_types) and def.timeout_s <= max_timeout_s
                and not exists (select from pauses where scope in ('all', 'queue:' || def.queue, 'schedule:' || def.id))
              group by def.id) as open
          where (select count(*) from job_runs as run
                  where run.definition_id = open.id and run.trigger = 'backfill' and run.status in ('queued', 'running', 'failed'))
                <= 750 * open.backfills) then
      return 1;
    end if;
  end if;
  return soonest;
end
$$;
