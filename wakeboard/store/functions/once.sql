-- for: worker, client
-- The guard of an effect, called inside the handler's own transaction, before or after the effect: true: this transaction is
-- the one; false: an earlier attempt has done it (commit nothing new). The lease is checked and its row is share-locked until
-- the transaction ends, so that nobody takes the run away meanwhile. Raises WB001 when the lease is lost.

create or replace function wakeboard.once(worker bigint, run_id bigint, run_uuid uuid, epoch bigint, key text)
returns boolean language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp
as $$
begin
  perform from job_runs as run
    where run.id = once.run_id and run.uuid = once.run_uuid and run.locked_by = once.worker and run.lease_epoch = once.epoch
      for key share;              -- against all but its heartbeat
  if not found then
    raise exception using errcode = 'WB001', message = format('the lease of run %s is lost: roll this transaction back', once.run_id);
  end if;
  insert into job_effects (run_uuid, key, run_id, lease_epoch, finished_at)
  values (once.run_uuid, once.key, once.run_id, once.epoch, statement_timestamp())
  on conflict on constraint an_effect_happens_once_per_run do nothing;
  return found;
end
$$;
