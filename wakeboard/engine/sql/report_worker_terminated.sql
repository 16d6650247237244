-- for: operator
-- Reports that the process of `worker` has ended: its leases are revoked at once, also those that have not expired. Call it only for a
-- process of which the kubelet has reported the end, never for one that cannot be seen. `cause` is the kubelet's word, `detail` its
-- message, `pod` the name of the pod; the attempts keep them.
--
-- Each of its runs is queued again and gets its attempt back. Evicted, Preempted, NodeShutdown, Drained and Deleted are not the fault of
-- the run: they count as a release (from the fifth on, each costs the attempt). So does every end of the worker of a run of the type `job`,
-- whose container runs in another pod. Every other cause counts as one crash, as in `reap`. A run with a requested cancellation is
-- cancelled.
--
-- Reads `slice` runs with ids after `after_id`: call it again with the returned next_id until that is null. Waits for no locked row:
-- `skipped` runs were locked, or their backfills, and a later call or `reap` takes them. A repeated or late call changes no other process's
-- leases. A worker without a row in `workers` has deregistered, or `reap` has taken its leases: nothing is read.
-- Example:
--   select * from wakeboard.report_worker_terminated(7, 'OOMKilled', pod => 'worker-1');

create or replace function wakeboard.report_worker_terminated(
  worker wakeboard.worker_number, cause wakeboard.termination_cause, detail wakeboard.termination_detail default '',
  pod wakeboard.label default '', after_id wakeboard.scan_id default 0, slice wakeboard.slice_size default 20000)
returns table (next_id bigint, released integer, crashed integer, dead integer, cancelled integer, skipped integer)
language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off set jit = off set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  crashes_until_dead constant integer := 3;                              -- as in `reap`
  disrupted constant boolean := report_worker_terminated.cause in ('Evicted', 'Preempted', 'NodeShutdown', 'Drained', 'Deleted');
  described constant text := report_worker_terminated.cause
    || case when detail = '' then '' when disrupted then ': ' else ', ' end || detail;
  known record;
  scanned record;
  ended record;
begin
  select name, lease_s into known from workers where worker_id = report_worker_terminated.worker;
  if not found and report_worker_terminated.after_id = 0 then
    return query select null::bigint, 0, 0, 0, 0, 0;
    return;
  end if;
  select max(id) as last_id, count(*) = slice as more,
         coalesce(array_agg(id) filter (where locked_by = report_worker_terminated.worker), '{}') as held into scanned
    from (select id, locked_by from job_runs where id > report_worker_terminated.after_id order by id limit slice) as run;

  with locked as (
    select id, attempts, max_attempts, lease_epoch, started_at, definition_id, has_dependents, disrupted
      or job_type = 'job' as not_at_fault,
           (disrupted or job_type = 'job') and release_count >= 4 as costs_the_attempt,
           coalesce(started_epoch is distinct from lease_epoch                                    -- as in `reap`
             and locked_until > started_at + make_interval(secs => least(known.lease_s, timeout_s + 10)), false) as waited,
           case when cancel_requested_at is not null then 'cancelled'
                when disrupted or job_type = 'job' then
                  case when release_count >= 4 and attempts >= max_attempts then 'released dead' else 'released' end
                when crash_count + 1 >= crashes_until_dead then 'crashed dead'
                else 'crashed' end as decision
      from job_runs as run
     where run.id = any (scanned.held)
       and run.locked_by = report_worker_terminated.worker
       and (run.cancel_requested_at is null or run.trigger <> 'backfill' or lock_backfills(array[run.id]) = '{}')
     order by run.id
       for update of run skip locked
  ), recorded as (
    insert into job_attempts (run_id, lease_epoch, attempt, outcome, error_type, error, locked_by, worker, started_at, died, cause, pod)
    select id, lease_epoch, attempts, case when not_at_fault then 'released' else 'crashed' end,
           case when not not_at_fault then 'WorkerCrashed' end, described, report_worker_terminated.worker, known.name, started_at,
           decision like '%dead', report_worker_terminated.cause, nullif(report_worker_terminated.pod, '')
      from locked
    on conflict do nothing
  ), noted as (
    insert into definition_changes (definition_id) select distinct definition_id from locked where definition_id is not null
  ), updated as (
    update job_runs as run
       set locked_by = 0, locked_until = 'epoch', holds_slot = false, lease_epoch = run.lease_epoch + 1,
           status = (case when decision like '%dead' then 'dead' else 'queued' end)::run_status,
           attempts = run.attempts - (not costs_the_attempt)::integer,
           crash_count = run.crash_count + (not not_at_fault)::integer,
           release_count = run.release_count + not_at_fault::integer,
           started_epoch = case when waited then run.started_epoch else run.lease_epoch end,
           started_at = case when waited and run.started_epoch is null then 'epoch' else run.started_at end,
           failed_at = case when decision like '%dead' then statement_timestamp() else run.failed_at end,
           dead_at = case when decision like '%dead' then statement_timestamp() end,
           error_type = case decision when 'released' then run.error_type when 'released dead' then 'ReleasedTooOften'
                        else 'WorkerCrashed' end,
           last_error = case decision when 'released' then run.last_error
                        when 'released dead' then 'its workers stopped too often before it could finish'
                        else format('its worker was terminated: %s (crash %s of %s)', described, run.crash_count + 1, crashes_until_dead)
                        end
      from locked
     where run.id = locked.id and decision <> 'cancelled'
  )
  select count(*) filter (where decision like 'released%') as released, count(*) filter (where decision like 'crashed%') as crashed,
         count(*) filter (where decision like '%dead') as dead, array_agg(id) filter (where decision = 'cancelled') as cancelled,
         array_agg(id) filter (where decision like '%dead' and has_dependents) as awaited
    into ended from locked;

  perform finish_runs(ended.cancelled, 'cancelled', 'Cancelled') where ended.cancelled is not null;
  perform note_dead_runs(ended.awaited) where ended.awaited is not null;
  if ended.released + ended.crashed > ended.dead then
    perform pg_notify('wakeboard', '');
  end if;
  return query
  select case when scanned.more then scanned.last_id end, ended.released::integer, ended.crashed::integer, ended.dead::integer,
         coalesce(cardinality(ended.cancelled), 0),
         (select count(*) from job_runs
           where id = any (scanned.held) and locked_by = report_worker_terminated.worker)::integer;
end
$$;
