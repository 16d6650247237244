-- internal (called by check_circuits and enqueue_former_tick)
-- The row of a schedule that has suspend_after_dead, with its circuit as its runs say: closed (circuit_opened_at is null), or open with
-- its next probe. Only runs of ticks count, in the order in which they ended. A dead run counts from when it died, also after it
-- was discarded; one that is retried does not count until it dies again.
-- - It opens when suspend_after_dead runs have died since the last one that succeeded.
-- - It closes when a run succeeds: the probe, one that still ran, or one that a user retried; unless enough runs have died since then.
-- - The probe is the first tick after the pause, which is 1 minute after the circuit opened and doubles with each dead probe, up to 1 hour.
--   The next tick is never a probe, so that a schedule whose ticks are further apart skips at least one before each probe. For a schedule
--   that runs after others, `create_dependent_runs` decides that, because its next tick is not known.
-- - A probe that was cancelled or skipped, or is lost, is replaced by the next tick.

create or replace function wakeboard.current_circuit(def wakeboard.job_definitions)
returns wakeboard.job_definitions language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
declare
  present constant timestamptz := statement_timestamp();
  was_open constant boolean := def.circuit_opened_at is not null;
  succeeded_at timestamptz;
  counted_from timestamptz := coalesce(def.dead_counted_from, 'epoch');
  is_open boolean;
  probe record;
begin
  -- A success from before the last tick was seen when that tick was handled, if its transaction took less than an hour.
  select past.finished_at into succeeded_at
    from job_run_history as past
   where past.definition_id = def.id and past.status = 'succeeded' and past.trigger = 'tick'
     and past.finished_at > greatest(counted_from, case when was_open then def.last_tick_at - interval '1 hour' end)
   order by past.finished_at desc limit 1;
  counted_from := greatest(counted_from, succeeded_at);
  if was_open and succeeded_at is null then
    is_open := true;                         -- whatever was retried or deleted since
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
  if is_open <> was_open or succeeded_at is not null and was_open then      -- enough runs may have died since then, too
    def.dead_counted_from := counted_from;
  end if;

  if is_open and not was_open then
    def.circuit_opened_at := present;
    def.circuit_probes := 0;
    def.circuit_probe_at := greatest(present + circuit_pause(0), def.next_run_at + interval '1 microsecond');
  elsif was_open and not is_open then
    def.circuit_opened_at := null;
    def.circuit_probe_at := null;
    def.circuit_probe_id := null;
    def.circuit_probes := null;
  elsif def.circuit_probe_id is not null then
    select run.dead_at, run.status < 'dead' as is_unfinished into probe from job_runs as run where run.id = def.circuit_probe_id;
    if not found then
      select case past.status when 'dead' then past.failed_at end as dead_at, false as is_unfinished into probe
        from (select) as one left join job_run_history as past on past.id = def.circuit_probe_id
       order by past.finished_at desc nulls last limit 1;
    end if;
    if probe.is_unfinished then
      return def;
    end if;
    def.circuit_probe_id := null;
    if probe.dead_at is not null then
      def.circuit_probes := least(def.circuit_probes + 1, 1000);
      def.circuit_probe_at := greatest(probe.dead_at + circuit_pause(def.circuit_probes), def.next_run_at + interval '1 microsecond');
    end if;
  end if;
  return def;
end
$$;
