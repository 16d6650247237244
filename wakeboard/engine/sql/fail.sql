-- for: worker
-- Reports attempts that failed. outcomes[i]: 'failed' or 'timed_out' (the run is retried, or dead if its attempts are used up), or
-- 'discarded' (dead now). delays_s[i]: seconds until the next attempt, at most 31 days; null: the run's backoff.
-- A run with a requested cancellation is cancelled instead, and so is its attempt, which then counts as no failure. Error type, error and
-- stack are cut to 200, 2,000 and 16,000 characters.
-- started_s_ago[i], ended_s_ago[i]: as in `complete`; null: unknown. Returns the ids that were not accepted, as `complete` does. Waits for
-- no locked row: a run is not accepted if another transaction has locked it, or its backfill, which a cancellation changes.
-- Example:
--   select wakeboard.fail(7, '{1}', '{1}', '{failed}', '{ValueError}', '{no such customer}', '{""}', '{null}');

create or replace function wakeboard.fail(
  worker bigint, ids bigint[], epochs bigint[], outcomes text[], error_types text[], errors text[], stacks text[], delays_s real[],
  started_s_ago real[] default null, ended_s_ago real[] default null)
returns setof bigint language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off set jit = off set lock_timeout = '2s'
as $$
declare
  base constant bigint := lease_base();
  accepted bigint[];
  cancelled bigint[];
  ended bigint[];                      -- dead, and schedules may wait for their end
begin
  if (worker <> 0 and 0 <= all (epochs) and outcomes <@ array['failed', 'timed_out', 'discarded'] and ('NaN' = any (delays_s)) is not true
      and cardinality(ids) = all (array[cardinality(epochs), cardinality(outcomes), cardinality(error_types), cardinality(errors),
                                        cardinality(stacks), cardinality(delays_s)])) is not true then     -- cheaper than five casts
    perform worker::worker_number, ids::id_array, epochs::epoch_array, outcomes::outcome_array, delays_s::delay_array;
    raise exception using errcode = '22023', message = 'arrays of fail are null or differ in length; write one element for each run';
  end if;
  with report as (
    select * from unnest(ids, epochs, outcomes, error_types, errors, stacks, delays_s, started_s_ago, ended_s_ago)
                    as report (id, epoch, outcome, error_type, error, stack, delay_s, started_s, ended_s)
  ), locked as (
    select run.id, run.attempts, run.definition_id, run.has_dependents, report.epoch, report.outcome, report.delay_s,
           case when report.started_s is null then run.started_at
                else greatest(run.started_at, statement_timestamp() - make_interval(secs => least(greatest(started_s, 0), 2678400))) end
             as started_at,
           greatest(run.started_at,
           statement_timestamp() - make_interval(secs => least(greatest(least(started_s, ended_s), 0), 2678400))) as ended_at,
           left(report.error_type, 200) as error_type, left(report.error, 2000) as error, left(report.stack, 16000) as stack,
           case when run.cancel_requested_at is not null then 'cancelled'
                when report.outcome = 'discarded' or run.attempts >= run.max_attempts then 'dead'
                else 'failed' end as decision
      from report join job_runs as run on run.id = report.id
     where run.locked_by = fail.worker and run.lease_epoch = report.epoch and report.epoch >= base
       and (run.cancel_requested_at is null or run.trigger <> 'backfill' or lock_backfills(array[run.id]) = '{}')
     order by run.id
       for update of run skip locked
  ), recorded as (
    insert into job_attempts (run_id, lease_epoch, attempt, outcome, error_type, error, stack, locked_by, worker, started_at, ended_at,
      died)
    select id, epoch, attempts,
           case when decision = 'cancelled' then 'cancelled' when outcome = 'timed_out' then 'timed_out' else 'failed' end,
           error_type, error, stack, fail.worker, (select name from workers where worker_id = fail.worker), started_at, ended_at,
           decision = 'dead'
      from locked
    on conflict do nothing
  ), noted as (
    insert into definition_changes (definition_id) select distinct definition_id from locked where definition_id is not null
  ), updated as (
    update job_runs as run
       set status = locked.decision::run_status, locked_by = 0, locked_until = 'epoch', holds_slot = false,
           started_epoch = run.lease_epoch,
           error_type = locked.error_type, last_error = locked.error, last_stack = locked.stack,
           failed_at = statement_timestamp(), dead_at = case locked.decision when 'dead' then statement_timestamp() end,
           run_at = case locked.decision
                    when 'failed' then statement_timestamp() + coalesce(
                      case when locked.delay_s is not null            -- at most 31 days
                           then make_interval(secs => least(greatest(locked.delay_s, 0), 2678400)) end,
                      backoff(run.backoff_strategy, run.backoff_base_s, run.backoff_cap_s, run.attempts))
                    else run_at end
      from locked
     where run.id = locked.id and locked.decision <> 'cancelled'
  )
  select array_agg(id), array_agg(id) filter (where decision = 'cancelled'),
    array_agg(id) filter (where decision = 'dead' and has_dependents)
    into accepted, cancelled, ended from locked;

  perform finish_runs(cancelled, 'cancelled', 'Cancelled') where cancelled is not null;
  perform note_dead_runs(ended) where ended is not null;
  if coalesce(cardinality(accepted), 0) < cardinality(ids) then
    perform wait_for_standby();          -- a repeated call may find what the first one wrote
    return query
    select missing.id
      from unnest(ids, epochs, outcomes) as missing (id, epoch, outcome)
     where not exists (select from unnest(accepted) as updated (id) where updated.id = missing.id)
       and not exists (                                -- a repeated call; an attempt that `reap` recorded for this lease does not count
         select from job_attempts
          where run_id = missing.id and lease_epoch = missing.epoch and locked_by = fail.worker
            and job_attempts.outcome in ('cancelled', case missing.outcome when 'timed_out' then 'timed_out' else 'failed' end));
  end if;
end
$$;
