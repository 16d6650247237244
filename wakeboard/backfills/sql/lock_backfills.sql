-- internal (called by cancel, fail, reap, release, remove_definitions, report_worker_terminated and revoke)
-- Locks what `finish_runs` changes of backfills when it cancels these runs, and returns those of the runs for which another transaction has
-- locked such a row. `wait`: it first waits until the caller's lock_timeout, for administrators; otherwise it waits for no lock. The order
-- is that of `cancel_backfill`: backfills before runs.

create or replace function wakeboard.lock_backfills(runs bigint[], wait boolean default false)
returns bigint[] language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
declare
  mine bigint[];
begin
  if wait then
    begin
      perform from backfills as job
        where job.id = any (array(select backfill_id from backfill_ticks where run_id = any (runs)))
        order by job.id for no key update;
    exception when lock_not_available then
      null;
    end;
  end if;
  mine := array(
    select item.run_id
      from backfill_ticks as item join backfills as job on job.id = item.backfill_id
     where item.run_id = any (runs)
     order by job.id, item.run_id
       for update of item skip locked for no key update of job skip locked);
  return array(
    select item.run_id
      from backfill_ticks as item join backfills as job on job.id = item.backfill_id
     where item.run_id = any (runs) and item.run_id <> all (mine));
end
$$;
