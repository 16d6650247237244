-- internal (called by claim_by_age and claim_in_order)
-- Returns the next scan position of each (queue, priority) pair of which a claim has read `scan_limit` rows and could claim none: up to
-- `scan_limit` due rows further, but never beyond a run that this worker could claim. A pair without a row in the result keeps its
-- position, or its scan has reached the end.

create or replace function wakeboard.advance_scan(
  queues wakeboard.queue_array, priorities wakeboard.priority_array, after_run_at wakeboard.scan_time_array,
  after_id wakeboard.scan_id_array, job_types wakeboard.job_type_array, scan_limit wakeboard.scan_size default 2000,
  max_timeout_s wakeboard.longest_timeout_s default 2678400)
returns table (queue text, priority smallint, run_at timestamptz, id bigint) language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
set plan_cache_mode = force_generic_plan set lock_timeout = '1s'
as $$
#variable_conflict use_column
begin
  return query
  select pair.queue, pair.priority, last.run_at, last.id
    from unnest(queues, priorities, after_run_at, after_id) as pair (queue, priority, seen_run_at, seen_id)
   cross join lateral (
     select run_at, id
       from (select run_at, id, row_number() over in_order as place, bool_or(mine) over in_order as reached_mine,
                    bool_or(mine) over () as has_mine
               from (select run_at, id,
                            locked_by = 0 and job_type = any (job_types) and timeout_s <= max_timeout_s
                            and (start_before is null or start_before > statement_timestamp() or started_at > 'epoch') as mine
                       from job_runs
                      where job_runs.queue = pair.queue and job_runs.priority = pair.priority
                        and limit_key is null and crash_count < 2 and dead_at is null
                        and run_at <= statement_timestamp() and (run_at, id) > (pair.seen_run_at, pair.seen_id)
                      order by run_at, id
                      limit scan_limit) as row
             window in_order as (order by run_at, id)) as scanned
      where not reached_mine and (has_mine or place = scan_limit)
      order by run_at desc, id desc limit 1) as last;
end
$$;
