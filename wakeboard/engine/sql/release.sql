-- for: worker
-- Puts runs of `worker` back into their queue, and gives their attempt back. reasons[i]:
--   'worker_stopped'   the worker stopped while the handler ran (SIGTERM, eviction); counted[i] is true;
--   'disconnected'     the database could not be reached; counted[i] is true;
--   'snoozed'          the handler asked for a later run;
--   'not_started'      no handler has started: as if the run had not been claimed, so its start_before still counts;
--   null               'worker_stopped' if counted[i], else 'snoozed'.
-- From the fifth counted release on, each costs the attempt, so that a run is not released forever. delays_s[i]: seconds until the run is
-- due again; 0: its run_at stays. A run with a requested cancellation is cancelled. If `reap` has counted a crash for the lease,
-- 'disconnected' (up to four times) and 'not_started' subtract it again. started_s_ago[i], ended_s_ago[i]: as in `complete`; null: unknown.
-- Returns the ids that were not accepted, as `complete` does. Waits for no lock: a run is not accepted if another transaction has locked
-- it, or its backfill, which a cancellation changes.
-- Example:
--   select wakeboard.release(7, '{1}', '{1}', '{0}', '{true}', '{worker_stopped}');

create or replace function wakeboard.release(worker bigint, ids bigint[], epochs bigint[], delays_s real[], counted boolean[],
  reasons text[] default null, started_s_ago real[] default null, ended_s_ago real[] default null)
returns setof bigint language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off set jit = off set lock_timeout = '2s'
as $$
declare
  base constant bigint := lease_base();
  accepted bigint[];
  cancelled bigint[];
  ended bigint[];                      -- dead, and schedules may wait for their end
begin
  if (worker <> 0 and 0 <= all (epochs) and ('NaN' = any (delays_s)) is not true and counted <@ array[true, false]
      and reasons <@ array['worker_stopped', 'disconnected', 'snoozed', 'not_started']
      and cardinality(ids) = all (array[cardinality(epochs), cardinality(delays_s), cardinality(counted), cardinality(reasons)])
     ) is not true then                                                                -- cheaper than six casts
    perform worker::worker_number, ids::id_array, epochs::epoch_array, delays_s::delay_array, counted::counted_array,
            reasons::reason_array;
    if cardinality(ids) <> any (array[cardinality(epochs), cardinality(delays_s), cardinality(counted), cardinality(reasons)]) then
      raise exception using errcode = '22023', message = 'arrays of release differ in length; write one element for each run';
    end if;
  end if;
  with report as (
    select * from unnest(ids, epochs, delays_s, counted, reasons, started_s_ago, ended_s_ago)
                    as report (id, epoch, delay_s, counted, reason, started_s, ended_s)
  ), locked as (
    select run.id, run.definition_id, run.has_dependents, run.attempts, report.epoch, report.delay_s, report.counted,
           case when report.started_s is null then run.started_at
                else greatest(run.started_at, statement_timestamp() - make_interval(secs => least(greatest(started_s, 0), 2678400))) end
             as started_at,
           greatest(run.started_at,
           statement_timestamp() - make_interval(secs => least(greatest(least(started_s, ended_s), 0), 2678400))) as ended_at,
           coalesce(report.reason, case when report.counted then 'worker_stopped' else 'snoozed' end) as reason,
           report.counted and run.release_count >= 4 as costs_the_attempt,
           case when run.cancel_requested_at is not null then 'cancelled'
                when report.counted and run.release_count >= 4 and run.attempts >= run.max_attempts then 'dead'
                else 'queued' end as decision
      from report join job_runs as run on run.id = report.id
     where run.locked_by = worker and run.lease_epoch = report.epoch and report.epoch >= base
       and (run.cancel_requested_at is null or run.trigger <> 'backfill' or lock_backfills(array[run.id]) = '{}')
     order by run.id
       for update of run skip locked
  ), recorded as (
    insert into job_attempts (run_id, lease_epoch, attempt, outcome, error, locked_by, worker, started_at, ended_at, died)
    select id, epoch, attempts,
           case when decision = 'cancelled' then 'cancelled' when reason = 'snoozed' then 'snoozed' else 'released' end,
           case reason when 'worker_stopped' then 'its worker was stopped' when 'disconnected' then 'the database could not be reached' end,
           release.worker, (select name from workers where worker_id = release.worker), started_at, ended_at, decision = 'dead'
      from locked
     where reason <> 'not_started'
    on conflict do nothing
  ), noted as (
    insert into definition_changes (definition_id) select distinct definition_id from locked where definition_id is not null
  ), updated as (
    update job_runs as run
       set status = locked.decision::run_status, locked_by = 0, locked_until = 'epoch', holds_slot = false,
           attempts = run.attempts - (not locked.costs_the_attempt)::integer,
           release_count = run.release_count + locked.counted::integer,
           started_epoch = case when locked.reason = 'not_started' then run.started_epoch else locked.epoch end,
           started_at = case when locked.reason = 'not_started' and run.started_epoch is null then 'epoch' else run.started_at end,
           run_at = case when locked.delay_s > 0 then statement_timestamp() + make_interval(secs => least(locked.delay_s, 2678400))
                    else run_at end,
           failed_at = case locked.decision when 'dead' then statement_timestamp() else run.failed_at end,
           dead_at = case locked.decision when 'dead' then statement_timestamp() end,
           error_type = case locked.decision when 'dead' then 'ReleasedTooOften' else run.error_type end,
           last_error = case locked.decision when 'dead' then 'its workers stopped too often before it could finish'
                                             else run.last_error end,
           last_stack = case locked.decision when 'dead' then null else run.last_stack end
      from locked
     where run.id = locked.id and locked.decision <> 'cancelled'
  )
  select array_agg(id), array_agg(id) filter (where decision = 'cancelled'),
    array_agg(id) filter (where decision = 'dead' and has_dependents)
    into accepted, cancelled, ended from locked;

  perform finish_runs(cancelled, 'cancelled', 'Cancelled') where cancelled is not null;
  perform note_dead_runs(ended) where ended is not null;
  if accepted is not null then
    perform pg_notify('wakeboard', '');
  end if;
  delete from job_attempts where ctid = any (array(                                    -- bounds the rows of a run that snoozes for days
    select past.ctid
      from unnest(ids) as given (id) join job_attempts as past on past.run_id = given.id
     where past.lease_epoch <= (select kept.lease_epoch from job_attempts as kept where kept.run_id = given.id
                                 order by kept.lease_epoch desc offset 50 limit 1)
       and past.outcome in ('snoozed', 'released') and not past.died
       for update of past skip locked));
  if coalesce(cardinality(accepted), 0) < cardinality(ids) then
    accepted := accepted || uncount_crashes(worker, ids, epochs, reasons);
    perform wait_for_standby();          -- a repeated call may find what the first one wrote
    return query
    select missing.id
      from unnest(ids, epochs) as missing (id, epoch)
     where not exists (select from unnest(accepted) as updated (id) where updated.id = missing.id)
       and not exists (select from job_runs as run          -- a repeated call: the run has not been claimed since
                        where run.id = missing.id and run.lease_epoch = missing.epoch and run.locked_by = 0)
       and not exists (select from job_attempts             -- or it has
                        where run_id = missing.id and lease_epoch = missing.epoch and locked_by = release.worker
                          and outcome in ('cancelled', 'released', 'snoozed'));
  end if;
end
$$;
