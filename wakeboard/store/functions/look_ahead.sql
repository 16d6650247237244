-- for: worker
-- Where the next look of `claim` begins for each pair that has more than `look` due rows behind its mark: a worker that
-- got a short batch goes on from there. No row: the pairs were walked to their ends.

create or replace function wakeboard.look_ahead(
  queues text[], priorities smallint[], after_run_at timestamptz[], after_id bigint[], look integer default 2000)
returns table (queue text, priority smallint, run_at timestamptz, id bigint) language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
  return query
  select pair.queue, pair.priority, last.run_at, last.id
    from unnest(queues, priorities, after_run_at, after_id) as pair (queue, priority, seen_run_at, seen_id)
   cross join lateral (
     select run_at, id
       from job_runs
      where job_runs.queue = pair.queue and job_runs.priority = pair.priority
        and limit_key is null and crash_count < 2 and dead_at is null
        and run_at <= statement_timestamp() and (run_at, id) > (pair.seen_run_at, pair.seen_id)
      order by run_at, id
     offset look - 1 limit 1) as last;
end
$$;
