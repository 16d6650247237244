-- for: worker
-- The heartbeat: records that the worker is alive and renews its leases (ids[i], epochs[i]) for another `lease_s` seconds, but not beyond
-- start + timeout + 10 s. ages_s[i]: seconds since the handler started; null before that. progresses[i]: 0 to 1, or null for the progress
-- that is stored. messages[i]: the progress in words, of which 200 characters are stored. steps: the progress of steps that run, a list
-- of {"id": of the run, "name": of the step, "progress": 0 to 1, "message": text or null}. Call it between heartbeats, with only the leases
-- whose progress has changed, so that users see it soon.
-- An expired lease is not renewed, but the start of its handler is recorded (see `reap`).
-- Raises 55P03 if the row of this worker and that of any lease are locked: an earlier renewal of it has not ended, for example because no
-- synchronous standby confirms its commit. Nothing is recorded, so the leases count as not renewed.
-- Returns only the leases (id, epoch) that need attention:
--   'cancel'         its cancellation was requested; the lease is renewed;
--   'busy'           another transaction has locked its row: the lease still holds, try again within a second;
--   'refused'        the lease is lost: stop the handler and drop its result;
--   'unregistered'   (id 0) there is no row for this worker: call register_worker.
-- Example:
--   select * from wakeboard.renew(7, 60, '{1}', '{1}', '{2.5}', '{0.4}');

create or replace function wakeboard.renew(
  worker bigint, lease_s integer, ids bigint[], epochs bigint[], ages_s real[], progresses real[],
  messages text[] default null, steps jsonb default null)
returns table (id bigint, answer text, epoch bigint) language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off set jit = off set lock_timeout = '1s'
as $$
#variable_conflict use_column
declare
  base constant bigint := lease_base();
  seen boolean;                        -- the row of this worker was not locked
  renewed bigint[];
  renewed_epochs bigint[];
  cancels boolean[];
begin
  if (worker <> 0 and lease_s between 1 and 3600 and 0 <= all (epochs)
      and cardinality(ids) = all (array[cardinality(epochs), cardinality(ages_s), cardinality(progresses)])
      and ('NaN' = any (ages_s)) is not true and ('NaN' = any (progresses)) is not true) is not true then  -- cheaper than six casts
    perform worker::worker_number, lease_s::lease_duration_s, ids::id_array, epochs::epoch_array, ages_s::age_array,
            progresses::progress_array;
    raise exception using errcode = '22023', message = 'arrays of renew are null or differ in length; write one element for each run';
  end if;
  if cardinality(ids) <> cardinality(messages) or jsonb_typeof(steps) <> 'array' then
    raise exception using errcode = '22023', message = 'write one element of messages for each run, and steps as a JSON list';
  end if;
  update workers
     set last_seen = statement_timestamp(),
         heartbeats_since = case when last_seen < statement_timestamp() - make_interval(secs => lease_s * 0.75) then statement_timestamp()
                       else heartbeats_since end
   where worker_id = (select worker_id from workers where worker_id = worker for no key update skip locked);
  seen := found;
  if not seen and not exists (select from workers where worker_id = worker) then
    seen := true;
    return query select 0::bigint, 'unregistered', 0::bigint;
  end if;
  with held as (
    select id, epoch, case when age_s is not null then least(greatest(age_s, 0), 2764800) end as age_s,   -- at most 32 days
           case when progress is not null then least(greatest(progress, 0), 1) end as progress, message
      from unnest(ids, epochs, ages_s, progresses, messages) as held (id, epoch, age_s, progress, message)
  ), locked as (
    select run.id, held.age_s, held.progress, held.message, run.locked_until > statement_timestamp() as holds
      from held join job_runs as run on run.id = held.id
     where run.locked_by = worker and run.lease_epoch = held.epoch and held.epoch >= base
     order by run.id
       for no key update of run skip locked      -- an open effect of the run locks it `for key share`, which does not conflict
  ), updated as (
    update job_runs as run
       set started_at = coalesce(statement_timestamp() - make_interval(secs => locked.age_s), started_at),
           progress = coalesce(locked.progress, run.progress),
           progress_message = case when locked.progress is null then run.progress_message else left(nullif(locked.message, ''), 200) end,
           started_epoch = case when locked.age_s is null then run.started_epoch else run.lease_epoch end,
           locked_until = case when holds then least(
             statement_timestamp() + make_interval(secs => least(lease_s, 3600)),
             coalesce(statement_timestamp() - make_interval(secs => locked.age_s), statement_timestamp())
               + make_interval(secs => timeout_s + 10)) else locked_until end
      from locked
     where run.id = locked.id and (holds or locked.age_s is not null)
    returning run.id, run.lease_epoch, run.cancel_requested_at is not null as cancels, holds
  )
  select array_agg(updated.id), array_agg(updated.lease_epoch), array_agg(updated.cancels)
    into renewed, renewed_epochs, cancels
    from updated where holds;

  if steps is not null then
    update job_steps as step
       set progress = least(greatest(report.progress, 0), 1), progress_message = left(nullif(report.message, ''), 200)
      from (select past.run_id, past.name, report.progress, report.message
              from jsonb_to_recordset(steps) as report (id bigint, name text, progress real, message text)
              join unnest(renewed, renewed_epochs) as held (id, epoch) on held.id = report.id
              join job_steps as past on past.run_id = report.id and past.name = report.name and past.lease_epoch = held.epoch
             where past.finished_at is null and past.failed_at is null and report.progress <> 'NaN'
               for no key update of past skip locked) as report
     where step.run_id = report.run_id and step.name = report.name;
  end if;

  if true = any (cancels) then
    return query
    select held.id, 'cancel', held.epoch
      from unnest(renewed, renewed_epochs, cancels) as held (id, epoch, cancels) where held.cancels;
  end if;
  if coalesce(cardinality(renewed), 0) < cardinality(ids) then
    if not seen and exists (
         select from unnest(ids, epochs) as held (id, epoch) join job_runs as run on run.id = held.id
          where run.locked_by = worker and run.lease_epoch = held.epoch and held.epoch >= base and run.locked_until > statement_timestamp()
            and not exists (select from unnest(renewed, renewed_epochs) as done (id, epoch) where done.id = held.id
              and done.epoch = held.epoch))
    then
      raise exception using errcode = '55P03', message = 'an earlier renewal of these leases has not ended; try again';
    end if;
    return query
    select missing.id, case when exists (
             select from job_runs as run
              where run.id = missing.id and run.locked_by = worker and run.lease_epoch = missing.epoch
                and missing.epoch >= base and run.locked_until > statement_timestamp()) then 'busy' else 'refused' end, missing.epoch
      from (select id, epoch from unnest(ids, epochs) as held (id, epoch)        -- by lease: a run may be named with a lost one, too
            except select id, epoch from unnest(renewed, renewed_epochs) as held (id, epoch)) as missing;
  end if;
end
$$;
