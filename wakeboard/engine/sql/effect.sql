-- for: worker
-- Records an effect outside the database. Without `done`, before the effect, it returns 'new' (first call), 'begun' (this attempt has
-- recorded it before), 'in doubt' (an earlier attempt recorded it and did not report it as done) or 'done'. With `done`, after the effect,
-- it returns 'done'. Raises WB001 if the lease is lost, and 55P03 if another transaction has locked the run or the effect: at once if it
-- has locked a row, after 100 ms if it has inserted the effect and is still open. Try again soon.

create or replace function wakeboard.effect(
  worker wakeboard.worker_number, run_id wakeboard.run_number, epoch wakeboard.lease_number, key wakeboard.effect_key,
  done wakeboard.switch default false)
returns text language plpgsql security definer
set lock_timeout = '100ms'
as $$
declare
  uuid_of_run uuid;
  known record;
begin
  select run.uuid into uuid_of_run from job_runs as run
   where run.id = effect.run_id and run.locked_by = effect.worker and run.lease_epoch = effect.epoch and run.lease_epoch >= lease_base()
     for key share nowait;
  if not found then
    raise exception using errcode = 'WB001', message = format('the lease of run %s is lost', effect.run_id);
  end if;
  select past.finished_at, past.lease_epoch into known from job_effects as past
   where past.run_uuid = uuid_of_run and past.key = effect.key
     for no key update nowait;            -- the caller waits, not the connection, which other runs use, too
  if effect.done then
    insert into job_effects as past (run_uuid, key, run_id, lease_epoch, finished_at, finished_epoch)
    values (uuid_of_run, effect.key, effect.run_id, effect.epoch, statement_timestamp(), effect.epoch)
    on conflict on constraint an_effect_happens_once_per_run do update
       set finished_at = coalesce(past.finished_at, excluded.finished_at),
           finished_epoch = case when past.finished_at is null then excluded.finished_epoch else past.finished_epoch end;
    return 'done';
  end if;
  if not found then
    insert into job_effects (run_uuid, key, run_id, lease_epoch) values (uuid_of_run, effect.key, effect.run_id, effect.epoch)
    on conflict on constraint an_effect_happens_once_per_run do nothing;
    if found then
      return 'new';
    end if;
    select past.finished_at, past.lease_epoch into known from job_effects as past       -- inserted since the first look
     where past.run_uuid = uuid_of_run and past.key = effect.key;
  end if;
  if known.finished_at is null and known.lease_epoch <> effect.epoch then
    update job_effects as past set begun_epochs = past.begun_epochs || effect.epoch
     where past.run_uuid = uuid_of_run and past.key = effect.key and effect.epoch <> all (past.begun_epochs);
  end if;
  return case when known.finished_at is not null then 'done' when known.lease_epoch = effect.epoch then 'begun' else 'in doubt' end;
end
$$;
