-- for: worker, operator
-- Revokes expired leases, in slices of `slice` runs with ids after `after_id`. Call it again with the returned next_id until that is null.
-- A scan begins (after_id = 0) once a minute. It begins sooner if a worker has sent no heartbeat for longer than its lease, but at most
-- once a second, however many processes call. A scan that was interrupted, or that skipped an expired lease (its row is locked, or the
-- backfill of a cancelled run is, or the next heartbeat decides), is repeated after four seconds. It waits for no locked row. While the row
-- with the scans' times is locked, one call in ten scans without it. `always`: begin now. At its end, a scan deletes workers without a
-- heartbeat for two leases.
--
-- A run with an expired lease is queued again, gets its attempt back and one crash more. The second crash quarantines it
-- (`claim_quarantined`); the third makes it dead (WorkerCrashed). No crash is counted for a lease that its worker does not know because the
-- reply to its claim was lost: that worker has sent heartbeats for half a lease, without a gap, and none named the lease. A crashed run
-- counts as started, unless the last heartbeat reported that its handler had not started. If the run's timeout ended the lease while the
-- worker was alive, the attempt failed (Timeout). A run with a requested cancellation is cancelled. Leases from before the database went
-- back in time are void (`lease_base`): those runs are queued again, and nothing is counted.
--
-- A run of the type `job` does not crash with its worker, because its container runs in another pod: the lost lease counts as a release
-- (from the fifth on, each costs the attempt), as in `report_worker_terminated`. It is not among `crashed`.
-- Example:
--   select * from wakeboard.reap();

create or replace function wakeboard.reap(
  after_id wakeboard.scan_id default 0, slice wakeboard.slice_size default 5000, always wakeboard.switch default false)
returns table (next_id bigint, crashed integer, timed_out integer, dead integer, cancelled integer) language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off set jit = off set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  expired_lease constant text :=         -- the store cannot tell these apart
    'its lease expired: its worker crashed, hung or lost the database, or another transaction kept the run''s row locked';
  base bigint;                         -- leases with a lower epoch are void
  lost_lease constant text := 'the database went back in time: what this attempt has committed may be lost';
  last_id bigint;
  leases record;
  reaped record;
begin
  base := lease_base();
  if reap.after_id = 0 and not begin_reap(always) then
    return query select null::bigint, 0, 0, 0, 0;
    return;
  end if;

  -- If the clock was ahead at a heartbeat, its worker would seem alive for too long.
  update workers set last_seen = statement_timestamp(), heartbeats_since = least(heartbeats_since, statement_timestamp())
   where worker_id = any (array(
    select worker_id from workers where last_seen > statement_timestamp() + interval '10 seconds' for no key update skip locked));
  last_id := (select max(id) from (select id from job_runs where id > reap.after_id order by id limit slice) as scanned);
  if last_id is null then
    update installation set reap_completed_at = reap_started_at
     where reap_skipped_at < reap_started_at and only_row in (select only_row from installation for no key update skip locked);
    -- Their leases had expired when the scan began: a worker claims for three quarters of a lease after a heartbeat.
    with gone as (
      delete from workers where worker_id = any (array(
        select worker_id from workers
         where last_seen < (select reap_started_at from installation) - make_interval(secs => lease_s * 2)
           for update skip locked))
      returning worker_id, name, pool, started_at
    )
    insert into past_workers (worker_id, name, pool, started_at)
    select worker_id, name, pool, started_at from gone on conflict do nothing;
    return query select null::bigint, 0, 0, 0, 0;
    return;
  end if;

  -- If the clock was ahead when a lease was granted, the lease would expire too late. It is shortened to lease_s from now.
  update job_runs set locked_until = statement_timestamp() + make_interval(secs => held.lease_s)
    from (select run.id, least(coalesce(known.lease_s, 3600), 3600) as lease_s
            from job_runs as run left join workers as known on known.worker_id = run.locked_by
           where run.id > reap.after_id and run.id <= last_id and run.locked_by <> 0
             and run.locked_until > statement_timestamp() + make_interval(secs => least(coalesce(known.lease_s, 3600), 3600) + 10)
             for no key update of run skip locked) as held
   where job_runs.id = held.id;

  with expired as (
    select run.id, run.locked_by, run.locked_until, run.started_at, run.timeout_s, run.started_epoch, known.last_seen,
           known.heartbeats_since, known.lease_s,
           run.started_epoch is distinct from run.lease_epoch as unstarted,                       -- as far as the store knows
           run.started_epoch is distinct from run.lease_epoch                                     -- never named in a heartbeat
             and run.locked_until <= run.started_at + make_interval(secs => least(known.lease_s, run.timeout_s + 10)) as unnamed,
           run.locked_until >= run.started_at + make_interval(secs => run.timeout_s) as bounded,  -- by its timeout
           run.lease_epoch < base as is_void
      from job_runs as run left join workers as known on known.worker_id = run.locked_by
     where run.id > reap.after_id and run.id <= last_id and run.locked_by <> 0
       and (run.locked_until < statement_timestamp() or run.lease_epoch < base)
  ), classified as (
    select id, locked_by, locked_until, started_epoch, is_void, unstarted and not unnamed and not is_void as waited,
           unnamed and heartbeats_since <= started_at and last_seen > started_at + make_interval(secs => lease_s / 2.0) as never_had,
           bounded and last_seen > started_at + make_interval(secs => timeout_s) as too_long,
           last_seen > statement_timestamp() - make_interval(secs => lease_s / 2.0)               -- the next heartbeat decides
             and bounded and not is_void and last_seen <= started_at + make_interval(
               secs => greatest(timeout_s, case when unnamed and heartbeats_since <= started_at then lease_s / 2.0 end)) as undecided
      from expired
  ), locked as (
    select run.id, case when is_void or never_had then 'given_back' when too_long then 'timed_out'
                        when job_type = 'job' then 'released' else 'crashed' end as how,
           is_void is not true and never_had or waited and too_long is not true as waited,
           case when is_void then lost_lease when never_had then null when too_long then 'it ran longer than its timeout'
                else expired_lease end as error
      from classified join job_runs as run on run.id = classified.id
     where undecided is not true and run.locked_by = classified.locked_by and run.locked_until = classified.locked_until
       and run.started_epoch is not distinct from classified.started_epoch                            -- no heartbeat came between
       and (run.cancel_requested_at is null or run.trigger <> 'backfill' or lock_backfills(array[run.id]) = '{}')
     order by run.id
       for update of run skip locked
  )
  select array_agg(id) as ids, array_agg(how) as ends, array_agg(waited) as waited, array_agg(error) as errors into leases from locked;
  select * into reaped from revoke_leases(leases.ids, leases.ends, leases.waited, leases.errors, expired_lease);
  if exists (select from job_runs
              where id > reap.after_id and id <= last_id and locked_by <> 0
                and (locked_until < statement_timestamp() or lease_epoch < base)) then
    update installation set reap_skipped_at = statement_timestamp()
     where only_row in (select only_row from installation for no key update skip locked);
  end if;
  return query select last_id, reaped.crashed, reaped.timed_out, reaped.dead, reaped.cancelled;
end
$$;
