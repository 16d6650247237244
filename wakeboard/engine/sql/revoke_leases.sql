-- internal (called by reap, report_worker_terminated and revoke)
-- Ends the leases of runs that the caller has locked (`for update`: an open `once` keeps its lease). ends[i]: how that of ids[i] ended.
--   'crashed'     one crash more. The second crash quarantines the run; the third makes it dead (WorkerCrashed);
--   'released'    one release more. From the fifth on, each costs the attempt; the last one makes the run dead (ReleasedTooOften);
--   'timed_out'   the attempt failed (Timeout): the run is retried, or dead if its attempts are used up;
--   'given_back'  nothing is counted, as if the run had not been claimed.
-- But for timeouts, the run is due again at once. A run with a requested cancellation is cancelled. waited[i]: its handler had not started,
-- so that its start_before still counts. errors[i]: what the attempt records; null: it records nothing. `crash`: what is written about a
-- crash in the run itself. `cause`, `pod`: see report_worker_terminated. Returns how many runs ended in each way; dead ones, too, count as
-- crashed, released or timed out.

create or replace function wakeboard.revoke_leases(
  ids bigint[], ends text[], waited boolean[], errors text[], crash text default null, cause text default null, pod text default null,
  out crashed integer, out released integer, out timed_out integer, out given_back integer, out dead integer, out cancelled integer)
language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off set jit = off
as $$
#variable_conflict use_column
declare
  -- The quarantine's limit, 2, is a literal in the predicates of job_runs' indexes and of the queries that use them;
  -- tests/store/test_sql_texts.py keeps them equal.
  crashes_until_dead constant integer := 3;
  ended record;
begin
  with revoked as (
    select run.id, run.attempts, run.lease_epoch, run.locked_by, run.started_at, run.definition_id, run.has_dependents,
           lease.how, lease.waited, lease.error, lease.how = 'released' and run.release_count >= 4 as costs_the_attempt,
           case when run.cancel_requested_at is not null then 'cancelled'
                when lease.how = 'timed_out' and run.attempts >= run.max_attempts then 'timed out dead'
                when lease.how = 'released' and run.release_count >= 4 and run.attempts >= run.max_attempts then 'released dead'
                when lease.how = 'crashed' and run.crash_count + 1 >= crashes_until_dead then 'crashed dead'
                else lease.how end as decision
      from unnest(ids, ends, waited, errors) as lease (id, how, waited, error) join job_runs as run on run.id = lease.id
  ), recorded as (
    insert into job_attempts (run_id, lease_epoch, attempt, outcome, error_type, error, locked_by, worker, started_at, died, cause, pod)
    select id, lease_epoch, attempts,
           case when how = 'timed_out' and decision = 'cancelled' then 'cancelled' when how = 'given_back' then 'released' else how end,
           case how when 'timed_out' then 'Timeout' when 'crashed' then 'WorkerCrashed' end,
           error, locked_by, (select name from workers where worker_id = locked_by), started_at, decision like '%dead',
           revoke_leases.cause, revoke_leases.pod
      from revoked
     where error is not null
    on conflict do nothing
  ), noted as (
    insert into definition_changes (definition_id) select distinct definition_id from revoked where definition_id is not null
  ), updated as (
    update job_runs as run
       set locked_by = 0, locked_until = 'epoch', holds_slot = false, lease_epoch = run.lease_epoch + 1,
           status = (case when decision like '%dead' then 'dead' when how = 'timed_out' then 'failed' else 'queued' end)::run_status,
           attempts = run.attempts - (how <> 'timed_out' and not costs_the_attempt)::integer,
           crash_count = run.crash_count + (how = 'crashed')::integer,
           release_count = run.release_count + (how = 'released')::integer,
           started_epoch = case when waited then run.started_epoch else run.lease_epoch end,
           started_at = case when waited and run.started_epoch is null then 'epoch' else run.started_at end,
           run_at = case decision when 'timed_out'
                    then statement_timestamp() + backoff(run.backoff_strategy, run.backoff_base_s, run.backoff_cap_s, run.attempts)
                    else run_at end,
           failed_at = case when decision = 'timed_out' or decision like '%dead' then statement_timestamp() else run.failed_at end,
           dead_at = case when decision like '%dead' then statement_timestamp() end,
           error_type = case when how = 'timed_out' then 'Timeout' when how = 'crashed' then 'WorkerCrashed'
                             when decision = 'released dead' then 'ReleasedTooOften' else run.error_type end,
           last_error = case when how = 'timed_out' then format('it ran longer than its timeout of %s s', run.timeout_s)
                             when how = 'crashed' then format('%s (crash %s of %s)', crash, run.crash_count + 1, crashes_until_dead)
                             when decision = 'released dead' then 'its workers stopped too often before it could finish'
                             else run.last_error end,
           last_stack = case when how in ('timed_out', 'crashed') or decision = 'released dead' then null else run.last_stack end
      from revoked
     where run.id = revoked.id and decision <> 'cancelled'
  )
  select count(*) filter (where decision like 'crashed%') as crashed, count(*) filter (where decision like 'released%') as released,
         count(*) filter (where decision like 'timed%') as timed_out, count(*) filter (where decision = 'given_back') as given_back,
         count(*) filter (where decision like '%dead') as dead,
         array_agg(id) filter (where decision = 'cancelled') as cancelled,
         array_agg(id) filter (where decision like '%dead' and has_dependents) as awaited
    into ended from revoked;
  perform finish_runs(ended.cancelled, 'cancelled', 'Cancelled') where ended.cancelled is not null;
  perform note_dead_runs(ended.awaited) where ended.awaited is not null;
  perform pg_notify('wakeboard', '') where ended.crashed + ended.released + ended.given_back > ended.dead;
  crashed := ended.crashed;
  released := ended.released;
  timed_out := ended.timed_out;
  given_back := ended.given_back;
  dead := ended.dead;
  cancelled := coalesce(cardinality(ended.cancelled), 0);
end
$$;
