-- for: worker
-- What a worker may run, and when it asks again: `claim`, and what a worker would ask next, in one round trip.
-- The last row is no run: its id is null, and its payload is an object with
--   limit_keys: those after `after_key` that have waiting runs, up to 200. Pass them to `claim_limited`.
-- and, unless `count` runs were claimed,
--   further: where `advance_scan` would continue, as [queue, priority, run_at, id]. Not null: fetch again from there.
--   quarantined: whether a quarantined run is due. A worker that runs nothing else passes its job types to `claim_quarantined`.
--   due_s: `next_due` within `within_s`; null: nothing, or `further` is not null.
-- `all_types`: the job types that `quarantined` and `due_s` consider; null: `job_types`. A worker that got fewer runs than `count`, and no
-- `further`, need not ask before a notification, before due_s, or before its poll interval is over, and while limit_keys or quarantined
-- name something, before one of its runs has ended.
-- Example:
--   select * from wakeboard.fetch_runs(7, 60, '{default}', '{3}', '{-infinity}', '{0}', '{send_mail}', 10);

create or replace function wakeboard.fetch_runs(
  worker bigint, lease_s integer, queues text[], priorities smallint[], after_run_at timestamptz[], after_id bigint[],
  job_types text[], count integer, scan_limit integer default 2000, max_timeout_s integer default 2678400,
  all_types text[] default null, within_s double precision default 60, after_key text default '')
returns setof wakeboard.claimed_run language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
set plan_cache_mode = force_generic_plan set lock_timeout = '1s'
as $$
declare
  served text[];
  claimed integer;
  answer jsonb;
  further jsonb;
  last wakeboard.claimed_run;
begin
  return query select *
      from claim(worker, lease_s, queues, priorities, after_run_at, after_id, job_types, count, scan_limit, max_timeout_s);
  get diagnostics claimed = row_count;
  served := array(select distinct queue from unnest(queues) as queue);
  answer := '{"limit_keys": []}';
  begin
    answer := jsonb_build_object('limit_keys', array(select due_limit_keys(served, after_key)));
    if claimed < count then
      all_types := coalesce(all_types, job_types);
      if scan_limit is not null then
        further := (select jsonb_agg(jsonb_build_array(next.queue, next.priority, next.run_at, next.id))
                      from advance_scan(queues, priorities, after_run_at, after_id, job_types, scan_limit, max_timeout_s) as next);
      end if;
      answer := answer || jsonb_build_object(
        'further', further,
        'quarantined', quarantined_since(served, all_types, max_timeout_s) is not null,
        'due_s', case when further is null then next_due(served, all_types, within_s, max_timeout_s) end);
    end if;
  exception when lock_not_available then    -- of a table: the runs are claimed all the same
    answer := answer || '{"due_s": 1}';
  end;
  last.payload := answer;
  return next last;
end
$$;
