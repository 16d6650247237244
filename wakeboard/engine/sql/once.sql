-- for: worker, client
-- Guards an effect in the database. Call it in the handler's own transaction, before or after the effect. True: this transaction has the
-- effect. False: an earlier attempt has committed it; commit nothing new. It checks the lease and locks the run's row in share mode until
-- the transaction ends, so that the run cannot be given to another worker meanwhile. Waits for a transaction that has locked the run.
-- Raises WB001 if this database does not know the lease: it is lost, or the connection leads to another server, such as a former primary.
-- Roll back. After a restart it waits, at most 5 seconds, until another call of a worker or of maintenance has recorded the server; then it
-- raises WB001. With the nil UUID as `run_uuid`, the effect happens once for ever: false if any run has committed it. Raises WB006 if a run
-- has begun it with `effect_forever` and has not reported it as done: it is in doubt, or this run or another one is executing it.

create or replace function wakeboard.once(worker bigint, run_id bigint, run_uuid uuid, epoch bigint, key text)
returns boolean language plpgsql security definer
as $$
declare
  is_forever constant boolean := once.run_uuid = '00000000-0000-0000-0000-000000000000';
  base bigint;                         -- null: this server is not recorded yet
  uuid_of_run uuid;
  begun_by bigint;
begin
  if key is null then
    perform refuse_argument('effect key', null, '1 to 256 characters, no control characters');
  end if;
  -- Recording the server here would lock the installation until the handler's transaction ends. A former primary is recorded by no call.
  for tenth_of_a_second in 0 .. 50 loop
    base := (select lease_base from installation
              where server_started_at = pg_postmaster_start_time() and server_table = 'installation'::regclass::oid);
    exit when base is not null or tenth_of_a_second = 50 or exists (select from server_change() where at_risk);
    perform pg_sleep(0.1);
  end loop;
  select run.uuid into uuid_of_run from job_runs as run
   where run.id = once.run_id and (run.uuid = once.run_uuid or is_forever)
     and run.locked_by = once.worker and once.worker <> 0 and run.lease_epoch = once.epoch     -- 0: it is not leased
     and run.lease_epoch >= base
     for key share;              -- conflicts with ending the lease, not with heartbeats
  if not found then
    raise exception using errcode = 'WB001', message = format(
      'this database does not know the lease of run %s: roll this transaction back', once.run_id),
      hint = 'The lease is lost, or this connection leads to another server than the worker''s.';
  end if;
  if is_forever then
    insert into job_forever_effects (key, first_run_uuid, run_id, lease_epoch, finished_at)
    values (once.key, uuid_of_run, once.run_id, once.epoch, statement_timestamp())
    on conflict on constraint an_effect_happens_once_for_ever do nothing;
    if not found then
      update job_forever_effects as past          -- one that was released
         set run_id = once.run_id, lease_epoch = once.epoch, started_at = statement_timestamp(), finished_at = statement_timestamp()
       where past.key = once.key and past.run_id = 0;
    end if;
    if found then
      return true;
    end if;
    select past.run_id into begun_by from job_forever_effects as past where past.key = once.key and past.finished_at is null;
    if found then
      raise exception using errcode = 'WB006', message = format(
        'run %s began the effect %s, and its end is not recorded: roll this transaction back', begun_by, once.key),
        hint = 'It may have happened. Run.effect with once="forever" finds it in doubt; wakeboard effects release lets it happen again.';
    end if;
    return false;
  end if;
  insert into job_effects (run_uuid, key, run_id, lease_epoch, finished_at)
  values (once.run_uuid, once.key, once.run_id, once.epoch, statement_timestamp())
  on conflict on constraint an_effect_happens_once_per_run do nothing;
  return found;
end
$$;
