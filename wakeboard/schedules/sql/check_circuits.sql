-- internal (called by enqueue_due_ticks, create_dependent_runs and update_circuits)
-- Opens and closes the circuits of those schedules `ids` that have suspend_after_dead, and returns those whose circuit is open. The caller
-- has locked the schedules. Only runs of ticks count, in the order in which they ended. A dead run counts from when it died, also after it
-- was discarded; one that is retried does not count until it dies again.
-- - It opens when suspend_after_dead runs have died since the last one that succeeded.
-- - It closes when a run succeeds: the probe, one that still ran, or one that a user retried; unless enough runs have died since then.
-- - The probe is the first tick after the pause, which is 1 minute after the circuit opened and doubles with each dead probe, up to 1 hour.
--   The next tick is never a probe, so that a schedule whose ticks are further apart skips at least one before each probe. For a schedule
--   that runs after others, `create_dependent_runs` decides that, because its next tick is not known.
-- - A probe that was cancelled or skipped, or is lost, is replaced by the next tick.

create or replace function wakeboard.check_circuits(ids bigint[])
returns bigint[] language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
declare
  present constant timestamptz := statement_timestamp();
  def job_definitions;
  succeeded_at timestamptz;
  counted_from timestamptz;
  is_open boolean;
  probe record;
  opened bigint[] := '{}';
begin
  for def in
    select * from job_definitions where id = any (ids) and suspend_after_dead is not null order by id
  loop
    counted_from := coalesce(def.dead_counted_from, 'epoch');
    -- A success from before the last tick was seen when that tick was handled, if its transaction took less than an hour.
    select past.finished_at into succeeded_at
      from job_run_history as past
     where past.definition_id = def.id and past.status = 'succeeded' and past.trigger = 'tick'
       and past.finished_at > greatest(counted_from, case when def.circuit_opened_at is not null
         then def.last_tick_at - interval '1 hour' end)
     order by past.finished_at desc limit 1;
    counted_from := greatest(counted_from, succeeded_at);
    if def.circuit_opened_at is not null and succeeded_at is null then
      is_open := true;                       -- whatever was retried or deleted since
    else
      is_open := def.suspend_after_dead <= (
        select count(*)
          from (select 1 from job_runs as run
                 where run.definition_id = def.id and run.trigger = 'tick' and run.dead_at > counted_from
                union all
                select 1 from job_run_history as past
                 where past.definition_id = def.id and past.trigger = 'tick' and past.status = 'dead'
                   and past.finished_at > counted_from and past.failed_at > counted_from
                limit def.suspend_after_dead) as died);
    end if;
    if is_open then
      opened := opened || def.id;
      if def.circuit_opened_at is not null and succeeded_at is not null then      -- enough runs have died since then, too
        update job_definitions set dead_counted_from = counted_from where id = def.id;
      end if;
    end if;

    if is_open and def.circuit_opened_at is null then
      update job_definitions
         set circuit_opened_at = present, dead_counted_from = counted_from, circuit_probes = 0,
             circuit_probe_at = greatest(present + circuit_pause(0), next_run_at + interval '1 microsecond')
       where id = def.id;
    elsif def.circuit_opened_at is not null and not is_open then
      update job_definitions
         set circuit_opened_at = null, dead_counted_from = counted_from, circuit_probe_at = null, circuit_probe_id = null,
             circuit_probes = null
       where id = def.id;
    elsif def.circuit_probe_id is not null then
      select run.dead_at, run.status < 'dead' as is_unfinished into probe from job_runs as run where run.id = def.circuit_probe_id;
      if not found then
        select case past.status when 'dead' then past.failed_at end as dead_at, false as is_unfinished into probe
          from (select) as one left join job_run_history as past on past.id = def.circuit_probe_id
         order by past.finished_at desc nulls last limit 1;
      end if;
      continue when probe.is_unfinished;
      update job_definitions
         set circuit_probe_id = null,
             circuit_probes = least(circuit_probes + (probe.dead_at is not null)::integer, 1000),
             circuit_probe_at = case when probe.dead_at is null then circuit_probe_at else greatest(
               probe.dead_at + circuit_pause(circuit_probes + 1),
               next_run_at + interval '1 microsecond') end
       where id = def.id;
    else
      continue;
    end if;
    insert into definition_changes (definition_id) values (def.id);
  end loop;
  return opened;
end
$$;
