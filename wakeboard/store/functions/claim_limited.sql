-- for: worker
-- Leases up to `count` due runs that stand behind the limit keys `keys`, never more of a key than its limit.
-- A key without a row in job_limits gets one (limit 1). Then two statements: the first locks the keys' rows in job_limits (skipping those that another worker holds), the second, with a
-- newer snapshot, counts the live leases and claims the rest. As one statement it would count in a snapshot from before the lock.

create or replace function wakeboard.claim_limited(
  worker bigint, lease_s integer, queues text[], job_types text[], keys text[], count integer,
  max_timeout_s integer default 2678400)
returns setof wakeboard.claimed_run language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
declare
  locked_keys text[];
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception using errcode = 'WB003', message = 'claim_limited must run in READ COMMITTED';
  end if;
  perform make_limits(keys);
  locked_keys := array(select key from job_limits where key = any (keys) order by key for update skip locked);
  return query
  with claimed as (
    update job_runs as run
       set status = 'running', locked_by = worker, lease_epoch = lease_epoch + 1, attempts = attempts + 1, holds_slot = true,
           started_at = statement_timestamp(),
           locked_until = statement_timestamp() + make_interval(secs => least(lease_s, timeout_s + 10, 3600))
     where run.id = any (array(
       select due.id
         from job_limits as bound
        cross join lateral (
          select free.id
            from unnest(array[5, 4, 3, 2, 1]::smallint[]) as wanted (priority)
           cross join unnest(queues) as served (queue)
           cross join lateral (
             select job_runs.id
               from job_runs
              where job_runs.queue = served.queue and limit_key = bound.key and job_runs.priority = wanted.priority
                and limit_key is not null and not holds_slot and crash_count < 2 and dead_at is null
                and run_at <= statement_timestamp()
                and locked_by = 0 and job_type = any (job_types) and timeout_s <= max_timeout_s
                and (start_before is null or start_before > statement_timestamp() or started_at > 'epoch')
              order by run_at, id
              limit bound.max_running
                for update skip locked) as free
           where not exists (select from pauses where what in ('all', 'queue:' || served.queue))
           limit greatest(0, bound.max_running - (
             select count(*) from job_runs as held where held.limit_key = bound.key and held.holds_slot))) as due
        where bound.key = any (locked_keys)
        limit count))
    returning run.*
  ), noted as (
    insert into definition_changes (definition_id) select distinct definition_id from claimed where definition_id is not null
  )
  select id, lease_epoch, job_type::text, payload::jsonb, attempts, max_attempts::integer, timeout_s::integer, scheduled_for, run_at,
         queue::text, priority::smallint, crash_count, uuid, definition_id, schedule
    from claimed;
end
$$;
