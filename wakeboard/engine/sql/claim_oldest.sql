-- internal (called by claim_by_age)
-- Leases up to `count` due runs of one queue, without a limit key: those that have been due for longest, whatever their priority. See
-- `fetch_runs` for leases and rows. `after_run_at[p]`, `after_id[p]`: the scan position of priority p. The five priorities are read in one
-- order of run_at, at most `scan_limit` rows. If none of these can be claimed, `advance_scan` returns the next position.
-- Workers make a share of their claims this way, so that a steady load of higher priorities starves no lower one.

create or replace function wakeboard.claim_oldest(
  worker bigint, lease_s integer, queue text, after_run_at timestamptz[], after_id bigint[], job_types text[], count integer,
  scan_limit integer default 2000, max_timeout_s integer default 2678400)
returns setof wakeboard.claimed_run language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_sort = off
set jit = off set plan_cache_mode = force_generic_plan set lock_timeout = '1s'
as $$
declare
  due record;
begin
  if exists (select from pauses where scope in ('all', 'queue:' || claim_oldest.queue)) then
    return;
  end if;
  select array_agg(locked.id) as ids, array_agg(locked.definition_id) as definitions into due
    from (
      select free.id, free.definition_id
        from (select *
                from (
                     (select ctid, run_at, id, locked_by, job_type
                       from job_runs
                      where job_runs.queue = claim_oldest.queue and priority = 5 and limit_key is null and crash_count < 2
                        and dead_at is null and run_at <= statement_timestamp() and (run_at, id) > (after_run_at[5], after_id[5])
                      order by run_at, id)
                     union all
                     (select ctid, run_at, id, locked_by, job_type
                       from job_runs
                      where job_runs.queue = claim_oldest.queue and priority = 4 and limit_key is null and crash_count < 2
                        and dead_at is null and run_at <= statement_timestamp() and (run_at, id) > (after_run_at[4], after_id[4])
                      order by run_at, id)
                     union all
                     (select ctid, run_at, id, locked_by, job_type
                       from job_runs
                      where job_runs.queue = claim_oldest.queue and priority = 3 and limit_key is null and crash_count < 2
                        and dead_at is null and run_at <= statement_timestamp() and (run_at, id) > (after_run_at[3], after_id[3])
                      order by run_at, id)
                     union all
                     (select ctid, run_at, id, locked_by, job_type
                       from job_runs
                      where job_runs.queue = claim_oldest.queue and priority = 2 and limit_key is null and crash_count < 2
                        and dead_at is null and run_at <= statement_timestamp() and (run_at, id) > (after_run_at[2], after_id[2])
                      order by run_at, id)
                     union all
                     (select ctid, run_at, id, locked_by, job_type
                       from job_runs
                      where job_runs.queue = claim_oldest.queue and priority = 1 and limit_key is null and crash_count < 2
                        and dead_at is null and run_at <= statement_timestamp() and (run_at, id) > (after_run_at[1], after_id[1])
                      order by run_at, id)) as of_each   -- merged: five index scans, each read as far as needed
               order by run_at, id
               limit scan_limit) as scanned
        join job_runs as free on free.ctid = scanned.ctid
       where scanned.locked_by = 0 and scanned.job_type = any (job_types)
         and free.locked_by = 0 and free.job_type = any (job_types) and free.timeout_s <= max_timeout_s
         and free.run_at <= statement_timestamp() and free.crash_count < 2 and free.dead_at is null and free.limit_key is null
         and (free.start_before is null or free.start_before > statement_timestamp() or free.started_at > 'epoch')
       limit claim_oldest.count
         for update of free skip locked) as locked;
  return query select * from lease_runs(worker, lease_s, due.ids, due.definitions);
end
$$;
