-- internal (called by claim_by_age and claim_in_order)
-- Returns the next scan position of each place in `wanted` of which a claim has read `scan_limit` rows and could claim none: up to
-- `scan_limit` due rows further, but never beyond a run that this worker could claim. A place without a row in the result keeps its
-- position, or its scan has reached the end. For places and positions see `lock_due_runs`.

create or replace function wakeboard.advance_scan(
  queues text[], wanted integer[], after_run_at timestamptz[], after_id bigint[], job_types text[], scan_limit integer default 2000,
  max_timeout_s integer default 2678400)
returns table (place integer, run_at timestamptz, id bigint) language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
set plan_cache_mode = force_generic_plan set lock_timeout = '1s'
as $$
#variable_conflict use_column
declare
  n constant integer := cardinality(queues);
begin
  return query
  select p, last.run_at, last.id
    from unnest(wanted) as p
   cross join lateral (
     select run_at, id
       from (select run_at, id, row_number() over in_order as nth, bool_or(mine) over in_order as reached_mine,
                    bool_or(mine) over () as has_mine
               from (select run_at, id,
                            locked_by = 0 and job_type = any (job_types) and timeout_s <= max_timeout_s
                            and (start_before is null or start_before > statement_timestamp() or started_at > 'epoch') as mine
                       from job_runs
                      where queue = queues[(p - 1) % n + 1] and priority = 5 - (p - 1) / n
                        and limit_key is null and crash_count < 2 and dead_at is null
                        and run_at <= statement_timestamp() and (run_at, id) > (after_run_at[p], after_id[p])
                      order by run_at, id
                      limit scan_limit) as row
             window in_order as (order by run_at, id)) as scanned
      where not reached_mine and (has_mine or nth = scan_limit)
      order by run_at desc, id desc limit 1) as last;
end
$$;
