-- internal (called by claim_by_age)
-- Leases up to `count` due runs of one queue, without a limit key: those that have been due for longest, whatever their priority. See
-- `fetch_runs` for leases and rows. `after_run_at[p]`, `after_id[p]`: the scan position of priority p. The five priorities are read in one
-- order of run_at, at most `scan_limit` rows. If none of these can be claimed, `advance_scan` returns the next position.
-- Workers make a share of their claims this way, so that a steady load of higher priorities starves no lower one.

create or replace function wakeboard.claim_oldest(
  worker wakeboard.worker_number, lease_s wakeboard.lease_duration_s, queue wakeboard.queue_name, after_run_at wakeboard.scan_time_array,
  after_id wakeboard.scan_id_array, job_types wakeboard.job_type_array, count wakeboard.row_count,
  scan_limit wakeboard.scan_size default 2000, max_timeout_s wakeboard.longest_timeout_s default 2678400)
returns setof wakeboard.claimed_run language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_sort = off
set jit = off set plan_cache_mode = force_generic_plan set lock_timeout = '1s'
as $$
begin
  if array_upper(after_run_at, 1) is distinct from 5 or array_upper(after_id, 1) is distinct from 5 then
    raise exception using errcode = '22023', message = 'after_run_at and after_id have a scan position for each of the five priorities';
  end if;
  if exists (select from pauses where scope in ('all', 'queue:' || claim_oldest.queue)) then
    return;
  end if;
  return query
  with claimed as (
    update job_runs as run
       set status = 'running', locked_by = worker, attempts = attempts + 1,
           lease_epoch = greatest(lease_epoch, (select lease_base())) + (select lease_step()),
           started_at = statement_timestamp(),
           locked_until = statement_timestamp() + make_interval(secs => least(lease_s, timeout_s + 10, 3600))
     where run.id = any (array(
       select free.id
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
          for update of free skip locked))
    returning definition_id, id, lease_epoch, job_type::text, payload::jsonb, attempts, max_attempts::integer, timeout_s::integer,
              scheduled_for, run_at, run.queue::text, priority::smallint, crash_count, uuid, schedule
  ), noted as (
    insert into definition_changes (definition_id) select distinct definition_id from claimed where definition_id is not null
  )
  select id, lease_epoch, job_type, payload, attempts, max_attempts, timeout_s, scheduled_for, run_at, claimed.queue, priority,
         crash_count, uuid, definition_id, schedule
    from claimed;
end
$$;
