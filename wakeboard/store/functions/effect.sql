-- for: worker
-- The record of an effect outside the database. Without `done` it is begun: returns 'new' (nobody began it), 'begun' (this
-- attempt did already), 'in doubt' (an earlier attempt began it and never said that it was done) or 'done'. With `done` it is
-- recorded as done and returns 'done'. Raises WB001 when the lease is lost, and 55P03
-- (ask again soon) when another transaction has locked the run.

create or replace function wakeboard.effect(worker bigint, run_id bigint, epoch bigint, key text, done boolean default false)
returns text language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp
set lock_timeout = '1s'
as $$
declare
  uuid_of_run uuid;
  known record;
begin
  select run.uuid into uuid_of_run from job_runs as run
   where run.id = effect.run_id and run.locked_by = effect.worker and run.lease_epoch = effect.epoch
     for key share nowait;
  if not found then
    raise exception using errcode = 'WB001', message = format('the lease of run %s is lost', effect.run_id);
  end if;
  if effect.done then
    insert into job_effects as past (run_uuid, key, run_id, lease_epoch, finished_at)
    values (uuid_of_run, effect.key, effect.run_id, effect.epoch, statement_timestamp())
    on conflict on constraint an_effect_happens_once_per_run do update set finished_at = coalesce(past.finished_at, excluded.finished_at);
    return 'done';
  end if;
  insert into job_effects (run_uuid, key, run_id, lease_epoch) values (uuid_of_run, effect.key, effect.run_id, effect.epoch)
  on conflict on constraint an_effect_happens_once_per_run do nothing;
  if found then
    return 'new';
  end if;
  select past.finished_at, past.lease_epoch into known from job_effects as past
   where past.run_uuid = uuid_of_run and past.key = effect.key;
  return case when known.finished_at is not null then 'done' when known.lease_epoch = effect.epoch then 'begun' else 'in doubt' end;
end
$$;
