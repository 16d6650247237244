-- for: worker
-- Returns those of these leases (ids[i], epochs[i]) that `worker` still holds. Call it with the ids that `complete`, `fail` or `release`
-- did not accept. If the lease still holds, another transaction had locked the run: report the outcome again.
-- Example:
--   select wakeboard.still_leased(7, '{1}', '{1}');

create or replace function wakeboard.still_leased(worker wakeboard.worker_number, ids wakeboard.id_array, epochs wakeboard.epoch_array)
returns setof bigint language sql stable security definer
set lock_timeout = '1s'
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
  select run.id
    from unnest(ids, epochs) as held (id, epoch) join job_runs as run on run.id = held.id
   where run.locked_by = worker and run.lease_epoch = held.epoch and held.epoch >= (select lease_base from installation)
$$;
