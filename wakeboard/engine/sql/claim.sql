-- internal (called by claim_in_order)
-- Leases up to `count` due runs without a limit key to `worker`, in the order of the pairs (queues[i], priorities[i]), then by run_at.
-- Of each pair it reads at most `scan_limit` due rows after the scan position (after_run_at[i], after_id[i]), so that runs of other job
-- types and leased runs cost a bounded time. If it can claim none of them, `advance_scan` returns the next position.
-- `scan_limit` null: unlimited. A sixth cheaper; pass it after a claim that returned a full batch.
-- A lease holds for least(lease_s, timeout_s + 10, 3600) seconds. Runs with a timeout over `max_timeout_s` are not claimed, nor are runs of
-- a paused queue, of other job types, or past their start_before. Never waits for a lock and never claims a run whose lease has expired.
--
-- A `claimed_run` has id and lease_epoch (which name the lease), job_type, payload, attempts (this one counted), max_attempts, timeout_s,
-- scheduled_for (the tick), run_at, queue, priority, crash_count, uuid, definition_id and schedule (null for a run of an application).

create or replace function wakeboard.claim(
  worker bigint, lease_s integer, queues text[], priorities smallint[], after_run_at timestamptz[], after_id bigint[],
  job_types text[], count integer, scan_limit integer default 2000, max_timeout_s integer default 2678400)
returns setof wakeboard.claimed_run language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
set plan_cache_mode = force_generic_plan set lock_timeout = '1s'
as $$
declare
  ids bigint[];
  definitions bigint[];                -- of these runs, in their order
begin
  if (worker <> 0 and lease_s between 1 and 3600 and count between 0 and 1000000 and max_timeout_s between 1 and 2678400
      and coalesce(scan_limit, 1) between 1 and 1000000
      and num_nulls(queues, priorities, after_run_at, after_id, job_types) = 0) is not true then    -- cheaper than ten casts
    perform worker::worker_number, lease_s::lease_duration_s, count::row_count, max_timeout_s::longest_timeout_s, scan_limit::scan_size,
            queues::queue_array, priorities::priority_array, after_run_at::scan_time_array, after_id::scan_id_array,
            job_types::job_type_array;
  end if;
  if scan_limit is null then
    select array_agg(due.id), array_agg(due.definition_id) into ids, definitions
      from (
        select free.id, free.definition_id
          from unnest(queues, priorities, after_run_at, after_id) as pair (queue, priority, seen_run_at, seen_id)
         cross join lateral (
           select job_runs.id, job_runs.definition_id
             from job_runs
            where job_runs.queue = pair.queue and job_runs.priority = pair.priority
              and limit_key is null and crash_count < 2 and dead_at is null
              and run_at <= statement_timestamp() and (run_at, id) > (pair.seen_run_at, pair.seen_id)
              and locked_by = 0 and job_type = any (job_types) and timeout_s <= max_timeout_s
              and (start_before is null or start_before > statement_timestamp() or started_at > 'epoch')
            order by run_at, id
            limit count
              for update skip locked) as free
         where not exists (select from pauses where scope in ('all', 'queue:' || pair.queue))
         limit count) as due;
  else
    select array_agg(due.id), array_agg(due.definition_id) into ids, definitions
      from (
        select free.id, free.definition_id
          from unnest(queues, priorities, after_run_at, after_id) as pair (queue, priority, seen_run_at, seen_id)
         cross join lateral (
           select free.id, free.definition_id
             from (select job_runs.ctid, locked_by, job_type
                     from job_runs
                    where job_runs.queue = pair.queue and job_runs.priority = pair.priority
                      and limit_key is null and crash_count < 2 and dead_at is null
                      and run_at <= statement_timestamp() and (run_at, id) > (pair.seen_run_at, pair.seen_id)
                    order by run_at, id
                    limit scan_limit) as scanned
             join job_runs as free on free.ctid = scanned.ctid
            where scanned.locked_by = 0 and scanned.job_type = any (job_types)   -- without these, the other rows are read a second time
              and free.locked_by = 0 and free.job_type = any (job_types) and free.timeout_s <= max_timeout_s
              and free.run_at <= statement_timestamp() and free.crash_count < 2 and free.dead_at is null   -- it may have changed since
              and free.limit_key is null
              and (free.start_before is null or free.start_before > statement_timestamp() or free.started_at > 'epoch')
            limit count
              for update of free skip locked) as free
         where not exists (select from pauses where scope in ('all', 'queue:' || pair.queue))
         limit count) as due;
  end if;
  if ids is null then
    return;
  end if;
  insert into definition_changes (definition_id)
  select distinct definition_id from unnest(definitions) as definition_id where definition_id is not null;
  -- A separate statement returns each row directly; a CTE would store the rows first.
  return query
  update job_runs as run
     set status = 'running', locked_by = worker, lease_epoch = lease_epoch + (select lease_step()), attempts = attempts + 1,
         started_at = statement_timestamp(),
         locked_until = statement_timestamp() + make_interval(secs => least(lease_s, timeout_s + 10, 3600))
   where run.id = any (ids)
  returning run.id, lease_epoch, job_type::text, payload::jsonb, attempts, max_attempts::integer, timeout_s::integer, scheduled_for,
            run_at, run.queue::text, run.priority::smallint, crash_count, uuid, definition_id, schedule;
end
$$;
