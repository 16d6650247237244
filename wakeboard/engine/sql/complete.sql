-- for: worker
-- Moves runs of `worker`, leased as (ids[i], epochs[i]), from job_runs to history as succeeded, in one statement. Each id once. `results`:
-- an object {"<run id>": result, …} for the runs that returned a result; `stored_result` bounds each. The handler of timed_ids[i] began
-- started_s_ago[i] and ended ended_s_ago[i] seconds before the call, by a monotonic clock of the worker; those of other runs ended now and
-- took no time. The times are bounded by the claim and this call. timed_ids null: runs take from their claim until now.
-- Returns the ids that were not accepted: the lease is lost, or another transaction has kept the run locked for more than 200 ms
-- (`still_leased` distinguishes the two). All others are accepted, by this call or by an earlier one whose reply was lost.
-- Example:
--   select wakeboard.complete(7, '{1}', '{1}', '{"1": {"sent": 3}}');

create or replace function wakeboard.complete(worker bigint, ids bigint[], epochs bigint[], results jsonb default null,
  timed_ids bigint[] default null, started_s_ago real[] default null, ended_s_ago real[] default null)
returns setof bigint language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_nestloop = off set enable_mergejoin = off set jit = off
set plan_cache_mode = force_generic_plan set lock_timeout = '200ms'
as $$
declare
  present constant timestamptz := statement_timestamp();
  this_week constant timestamptz := date_trunc('week', present, 'UTC');      -- its partition exists
  untimed_at constant timestamptz := case when timed_ids is not null then present end;   -- when those runs began; null: at their claim
  ages_s jsonb;                        -- {"<run id>": [began, ended], …}: costs the other runs less than a join
  base constant bigint := lease_base();
  free bigint[] := ids;                -- of leases that are not void
  is_one constant boolean := epochs[1] = all (epochs);       -- the epoch of all runs: nearly always, as they come from one claim
  again boolean := false;
  accepted integer;
begin
  if (worker <> 0 and 0 <= all (epochs) and cardinality(ids) = cardinality(epochs)) is not true then       -- cheaper than three casts
    perform worker::worker_number, ids::id_array, epochs::epoch_array;
    raise exception using errcode = '22023', message = 'arrays of complete differ in length; write one epoch for each run';
  end if;
  if timed_ids <> '{}' then
    select jsonb_object_agg(id, jsonb_build_array(least(greatest(started_s, 0), 2678400),
                                                  least(greatest(least(started_s, ended_s), 0), 2678400))) into ages_s
      from unnest(timed_ids, started_s_ago, ended_s_ago) as timed (id, started_s, ended_s)
     where id is not null;
  end if;
  if base > any (epochs) then
    free := array(select id from unnest(ids, epochs) as held (id, epoch) where epoch >= base);
  end if;
<<tries>>
loop
begin
  with done as (                       -- an index scan over a sorted array: rows are locked in id order
    delete from job_runs where id = any (free) and locked_by = worker
                           and (is_one and lease_epoch = epochs[1]          -- builds no hash table
                                or ((id, lease_epoch) in (select * from unnest(ids, epochs))) is true)   -- `is true`: not a slow join
    returning definition_id, has_dependents,       -- first, because `noted` reads only it; then only the columns of history
              id, uuid, scheduled_for, run_at, created_at, started_at, locked_by, lease_epoch, trigger, backoff_strategy,
              backoff_base_s, backoff_cap_s, timeout_s, attempts, max_attempts, crash_count, release_count, priority, queue,
              job_type, payload, definition_generation, schedule, coalesce(shared_limit_key, limit_key) as limit_key, idempotency_key,
              failed_at, error_type, last_error
  ), noted as (
    insert into definition_changes (definition_id) select distinct definition_id from done where definition_id is not null
  ), ended as (                        -- other runs or schedules wait for these
    insert into ended_runs (run_id, definition_id, scheduled_for, outcome)
    -- see note_dead_runs
    select id, case when trigger <> 'manual' and scheduled_for = date_trunc('second', scheduled_for) then definition_id end,
           scheduled_for, 'succeeded'
      from done where has_dependents
  )
  insert into job_run_history (
    id, uuid, scheduled_for, run_at, created_at, started_at, finished_at, locked_by, lease_epoch, status, trigger,
    backoff_strategy, backoff_base_s, backoff_cap_s, timeout_s, attempts, max_attempts, crash_count, release_count, priority,
    queue, job_type, payload, definition_id, definition_generation, schedule, limit_key, idempotency_key,
    failed_at, error_type, last_error, result)
  select
    id, uuid, scheduled_for, run_at, created_at,
    greatest(started_at, case when ages_s is null then untimed_at
                              else present - make_interval(secs => coalesce((ages_s -> id::text ->> 0)::float8, 0)) end),
    greatest(started_at, this_week, case when ages_s is null then present
                              else present - make_interval(secs => coalesce((ages_s -> id::text ->> 1)::float8, 0)) end),
    locked_by, lease_epoch, 'succeeded', trigger,
    backoff_strategy, backoff_base_s, backoff_cap_s, timeout_s, attempts, max_attempts, crash_count, release_count, priority,
    queue, job_type, payload, definition_id, definition_generation, schedule, limit_key, idempotency_key,
    failed_at, error_type, last_error, case when results is not null then stored_result(results -> id::text) end
  from done;
  get diagnostics accepted = row_count;
  exit tries;
exception when lock_not_available then   -- a second try, without the rows that other transactions have locked
  if again then
    raise;
  end if;
  again := true;
  perform set_config('lock_timeout', '2s', true);
  free := array(select id from job_runs
                 where id = any (free) and locked_by = worker and ((id, lease_epoch) in (select * from unnest(ids, epochs))) is true
                 order by id for update skip locked);
end;
end loop;
  if accepted < cardinality(ids) then
    perform wait_for_standby();          -- a repeated call may find what the first one wrote
    return query
    select missing.id
      from unnest(ids, epochs) as missing (id, epoch)
     where (select id from job_run_history as past           -- not a join, which may read the whole history for each
             where past.id = missing.id and past.locked_by = worker and past.lease_epoch = missing.epoch
              and past.status = 'succeeded' limit 1) is null;
  end if;
end
$$;
