-- for: operator
-- Forgets that an effect happened once for ever, so that the next attempt for the key, of any run, has it again, under another key for the
-- provider. The row stays, with that other key: a run that had the effect before must not derive its former one. The answer: 'released', or
-- 'refused: …' if there is no such effect, or a run is executing it. Raises 22023 without a reason. Writes an audit row (see Audit).
-- Example:
--   select wakeboard.release_effect('invoice:812', 'the bank has returned the payment');

create or replace function wakeboard.release_effect(
  key wakeboard.effect_key, reason text default '', actor wakeboard.audit_actor default null, source wakeboard.acting_program default 'sql')
returns text language plpgsql security definer
set lock_timeout = '2s'
as $$
declare
  known job_forever_effects;
begin
  if coalesce(btrim(reason), '') = '' then
    perform refuse_argument('reason', reason, 'why the effect may happen again');
  end if;
  select * into known from job_forever_effects as past where past.key = release_effect.key for update;
  if not found or known.run_id = 0 then
    perform wait_for_standby();
    return 'refused: no run has had an effect of this key once for ever';
  elsif known.finished_at is null and exists (
       select from job_runs as run
        where run.id = known.run_id and run.lease_epoch = known.lease_epoch and run.locked_by <> 0) then
    return format('refused: run %s is executing it: cancel the run, or wait for its end', known.run_id);
  end if;
  update job_forever_effects as past
     set run_id = 0, lease_epoch = 0, first_run_uuid = gen_random_uuid(), begun_epochs = '{}', finished_at = statement_timestamp()
   where past.key = release_effect.key;
  insert into audit_log (actor, source, action, run_id, scope, reason, detail)
  values (coalesce(actor, session_user), source, 'release_effect', known.run_id, release_effect.key,
          coalesce(left(release_effect.reason, 200), ''),
          jsonb_build_object('started_at', known.started_at, 'finished_at', known.finished_at));
  return 'released';
exception when lock_not_available then
  perform refuse_locked();
end
$$;
