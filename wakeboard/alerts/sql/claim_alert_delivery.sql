-- for: operator
-- Leases one due run of the job type wakeboard.alert in `queue`, to one of the `receivers`, for 70 seconds. Returns nothing while a worker
-- that knows the job type serves the queue: one that registered with both in the last four minutes. Runs of a paused queue and
-- quarantined runs are left to workers. Any other job type is not claimed. `finish_alert_delivery` reports the outcome.
--
-- It finds the last 1,000 recorded notifications of open alerts and of those that were resolved in the last two days, calls of heartbeats,
-- and the last 100 test messages; as in `alert_delivery`, no other run of the job type. Never waits for a lock.
-- Example:
--   select * from wakeboard.claim_alert_delivery(7, 'default', '{team,watchdog}');

create or replace function wakeboard.claim_alert_delivery(
  worker wakeboard.worker_number, queue wakeboard.queue_name, receivers text[])
returns table (run_id bigint, lease_epoch bigint, uuid uuid, payload jsonb) language plpgsql security definer
set enable_seqscan = off set jit = off set plan_cache_mode = force_custom_plan set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  present constant timestamptz := statement_timestamp();
  a_worker_lives constant interval := '4 minutes';     -- a worker registers again every three
  step constant bigint := lease_step();
  base constant bigint := lease_base();
  candidates bigint[];
  claimed bigint;
begin
  if receivers is null then
    raise exception using errcode = '22023', message = 'receivers is null; write the names of receivers and heartbeats';
  end if;
  if exists (select from pauses where scope in ('all', 'queue:' || claim_alert_delivery.queue))
     or exists (select from worker_types as known
                 where known.job_type = 'wakeboard.alert' and known.queue = claim_alert_delivery.queue
                   and known.last_known_at > present - a_worker_lives) then
    return;
  end if;
  candidates := array(
    select newest.run_id
      from (select sent.run_id
              from (select id from alerts where resolved_at is null
                    union all
                    select id from alerts where resolved_at > present - interval '2 days') as recent
              join alert_deliveries as sent on sent.alert_id = recent.id
             order by sent.run_id desc limit 1000) as newest
    union
    select beat.run_id from alert_heartbeats as beat where beat.run_id is not null
    union
    select test.run_id
      from (select run_id from audit_log where action = 'send_test_notification' order by id desc limit 100) as test);
  select run.id into claimed
    from job_runs as run
   where run.id = any (candidates) and run.job_type = 'wakeboard.alert' and run.queue = claim_alert_delivery.queue
     and run.payload ->> 'receiver' = any (receivers)
     and run.locked_by = 0 and run.dead_at is null and run.crash_count < 2 and run.limit_key is null and run.run_at <= present
   order by run.run_at, run.id
   limit 1
     for update skip locked;
  return query
  update job_runs as run
     set status = 'running', locked_by = worker, lease_epoch = greatest(run.lease_epoch, base) + step, attempts = run.attempts + 1,
         started_at = present, started_epoch = greatest(run.lease_epoch, base) + step, locked_until = present + interval '70 seconds'
   where run.id = claimed
  returning run.id, run.lease_epoch, run.uuid, run.payload::jsonb;
end
$$;
