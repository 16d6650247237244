-- internal (called by claim_in_order)
-- Locks up to `count` due runs without a limit key that are not leased, in the order of `wanted`, then by run_at, for `lease_runs` in the
-- same transaction. `wanted` has places: pairs of queue and priority, numbered as in `fetch_state`. Returns the columns of an array each:
-- of the k-th run the id, the schedule, its place, and run_at. Of each place p it reads at most `scan_limit` due rows after the scan
-- position (after_run_at[p], after_id[p]), so that runs of other job types and leased runs cost a bounded time. If it finds no other,
-- `advance_scan` returns the next position.
-- `scan_limit` null: unlimited. A sixth cheaper; pass it after a call that returned a full batch.
-- Runs with a timeout over `max_timeout_s` are not locked, nor are runs of a paused queue, of other job types, or past their start_before.
-- Never waits for a lock.

create or replace function wakeboard.lock_due_runs(
  queues text[], wanted integer[], after_run_at timestamptz[], after_id bigint[], job_types text[], count integer,
  scan_limit integer default 2000, max_timeout_s integer default 2678400,
  out ids bigint[], out definitions bigint[], out places integer[], out run_ats timestamptz[])
language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
set plan_cache_mode = force_generic_plan set lock_timeout = '1s'
as $$
declare
  n constant integer := cardinality(queues);
begin
  if scan_limit is null then
    select array_agg(due.id), array_agg(due.definition_id), array_agg(due.place), array_agg(due.run_at)
      into ids, definitions, places, run_ats
      from (
        select free.id, free.definition_id, free.run_at, p as place
          from unnest(wanted) as p
         cross join lateral (
           select job_runs.id, job_runs.definition_id, job_runs.run_at
             from job_runs
            where job_runs.queue = queues[(p - 1) % n + 1] and job_runs.priority = 5 - (p - 1) / n
              and limit_key is null and crash_count < 2 and dead_at is null
              and run_at <= statement_timestamp() and (run_at, id) > (after_run_at[p], after_id[p])
              and locked_by = 0 and job_type = any (job_types) and timeout_s <= max_timeout_s
              and (start_before is null or start_before > statement_timestamp() or started_at > 'epoch')
            order by run_at, id
            limit count
              for update skip locked) as free
         where not exists (select from pauses where scope in ('all', 'queue:' || queues[(p - 1) % n + 1]))
         limit count) as due;
  else
    select array_agg(due.id), array_agg(due.definition_id), array_agg(due.place), array_agg(due.run_at)
      into ids, definitions, places, run_ats
      from (
        select free.id, free.definition_id, free.run_at, p as place
          from unnest(wanted) as p
         cross join lateral (
           select free.id, free.definition_id, free.run_at
             from (select job_runs.ctid, locked_by, job_type
                     from job_runs
                    where job_runs.queue = queues[(p - 1) % n + 1] and job_runs.priority = 5 - (p - 1) / n
                      and limit_key is null and crash_count < 2 and dead_at is null
                      and run_at <= statement_timestamp() and (run_at, id) > (after_run_at[p], after_id[p])
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
         where not exists (select from pauses where scope in ('all', 'queue:' || queues[(p - 1) % n + 1]))
         limit count) as due;
  end if;
end
$$;
