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
  disrupted constant boolean := report_worker_terminated.cause in ('Evicted', 'Preempted', 'NodeShutdown', 'Drained', 'Deleted');
  described constant text := report_worker_terminated.cause
    || case when detail = '' then '' when disrupted then ': ' else ', ' end || detail;
  base constant bigint := lease_base();
  known record;
  scanned record;
  leases record;
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
    select id, case when lease_epoch < base then 'given_back' when disrupted or job_type = 'job' then 'released' else 'crashed' end as how,
           coalesce(started_epoch is distinct from lease_epoch                                    -- as in `reap`
             and locked_until > started_at + make_interval(secs => least(known.lease_s, timeout_s + 10)), false) as waited
      from job_runs as run
     where run.id = any (scanned.held)
       and run.locked_by = report_worker_terminated.worker
       and (run.cancel_requested_at is null or run.trigger <> 'backfill' or lock_backfills(array[run.id]) = '{}')
     order by run.id
       for update of run skip locked
  )
  select array_agg(id) as ids, array_agg(how) as ends, array_agg(waited) as waited,
         array_fill(described, array[count(*)::integer]) as errors into leases from locked;
  select * into ended from revoke_leases(leases.ids, leases.ends, leases.waited, leases.errors,
                                         'its worker was terminated: ' || described, report_worker_terminated.cause,
                                         nullif(report_worker_terminated.pod, ''));
  return query
  select case when scanned.more then scanned.last_id end, ended.released, ended.crashed, ended.dead, ended.cancelled,
         (select count(*) from job_runs
           where id = any (scanned.held) and locked_by = report_worker_terminated.worker)::integer;
end
$$;
