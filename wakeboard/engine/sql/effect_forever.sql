-- for: worker
-- As `effect`, for an effect that happens once for ever: its key names what it stands for, whatever run has it. `state` is 'new', 'begun',
-- 'done', 'in doubt' (an earlier attempt, of this or of another run, began it, ended and did not report it as done: it is this attempt's
-- now), or 'held': an attempt of the run `held_by` has it and is running. Do nothing then, and snooze. The key for the provider is the
-- version 5 UUID of the key in the namespace `first_run_uuid`: the run that began it first or, after a release, a random UUID. With `done`,
-- raises WB006 if another attempt has begun it since, which is possible after a release: that one reports its end itself.

create or replace function wakeboard.effect_forever(
  worker wakeboard.worker_number, run_id wakeboard.run_number, epoch wakeboard.lease_number, key wakeboard.effect_key,
  done wakeboard.switch default false)
returns table (state text, first_run_uuid uuid, held_by bigint) language plpgsql security definer
set lock_timeout = '100ms'
as $$
declare
  uuid_of_run uuid;
  known record;
begin
  select run.uuid into uuid_of_run from job_runs as run
   where run.id = effect_forever.run_id and run.locked_by = effect_forever.worker and run.lease_epoch = effect_forever.epoch
     and run.lease_epoch >= lease_base()
     for key share nowait;
  if not found then
    raise exception using errcode = 'WB001', message = format('the lease of run %s is lost', effect_forever.run_id);
  end if;
  if effect_forever.done then
    insert into job_forever_effects as past (key, first_run_uuid, run_id, lease_epoch, finished_at)
    values (effect_forever.key, uuid_of_run, effect_forever.run_id, effect_forever.epoch, statement_timestamp())
    on conflict on constraint an_effect_happens_once_for_ever do update
       set finished_at = coalesce(past.finished_at, excluded.finished_at)
     where past.finished_at is not null or (past.run_id, past.lease_epoch) = (excluded.run_id, excluded.lease_epoch)
    returning past.first_run_uuid into known;
    if not found then
      raise exception using errcode = 'WB006', message = format(
        'another attempt has begun the effect %s since, so this one cannot report it as done', effect_forever.key);
    end if;
    return query select 'done', known.first_run_uuid, null::bigint;
    return;
  end if;
  loop
    insert into job_forever_effects (key, first_run_uuid, run_id, lease_epoch)
    values (effect_forever.key, uuid_of_run, effect_forever.run_id, effect_forever.epoch)
    on conflict on constraint an_effect_happens_once_for_ever do nothing;
    if found then
      return query select 'new', uuid_of_run, null::bigint;
      return;
    end if;
    select past.first_run_uuid, past.run_id, past.lease_epoch, past.finished_at into known from job_forever_effects as past
     where past.key = effect_forever.key
       for no key update nowait;          -- the caller waits, not the connection, which other runs use, too
    exit when found;                      -- else it was deleted since the insert
  end loop;
  first_run_uuid := known.first_run_uuid;
  if known.run_id = 0 then                -- release_effect
    state := 'new';
    update job_forever_effects as past
       set run_id = effect_forever.run_id, lease_epoch = effect_forever.epoch,
           started_at = statement_timestamp(), finished_at = null
     where past.key = effect_forever.key;
  elsif known.finished_at is not null then
    state := 'done';
  elsif (known.run_id, known.lease_epoch) = (effect_forever.run_id, effect_forever.epoch) then
    state := 'begun';
  elsif exists (select from job_runs as run
                 where run.id = known.run_id and run.lease_epoch = known.lease_epoch and run.locked_by <> 0) then
    state := 'held';
    held_by := known.run_id;
  else
    state := 'in doubt';
    update job_forever_effects as past
       set run_id = effect_forever.run_id, lease_epoch = effect_forever.epoch,
           begun_epochs = (past.lease_epoch || past.begun_epochs)[:100]
     where past.key = effect_forever.key;
  end if;
  return next;
end
$$;
