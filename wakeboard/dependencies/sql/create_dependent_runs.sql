-- internal (called by enqueue_dependents and enqueue_joined_ticks)
-- Creates the runs of up to `count` ticks whose dependencies have ended (schedule_ticks.waits_for is 'run'). Those of schedules
-- that are paused, suspended, stopped or locked stay. While the circuit of a schedule is open (suspend_after_dead), its ticks are
-- skipped (CircuitOpen), except probes: the newest tick that is ready after the pause, if a tick was skipped since the pause began. Returns
-- the numbers of runs created and of ticks skipped, because of concurrencyPolicy or the circuit.

create or replace function wakeboard.create_dependent_runs(count integer)
returns table (runs integer, skipped integer) language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  definitions bigint[];
  ticks timestamptz[];
  ids bigint[];
  mine bigint[];
  broken bigint[] := '{}';             -- their circuit is open
  probing bigint[] := '{}';
  probes timestamptz[] := '{}';
  locked bigint[];
  made integer;
  not_made integer;
begin
  mine := array(
    with recursive waiting (id) as (   -- one index lookup for each schedule: a paused one may have very many ticks
      select min(definition_id) from schedule_ticks where waits_for = 'run'
      union all
      select (select min(definition_id) from schedule_ticks where waits_for = 'run' and definition_id > waiting.id)
        from waiting where waiting.id is not null
    )
    select def.id
      from waiting
     cross join lateral (               -- by id, as in enqueue_due_ticks
       select * from job_definitions as known where known.id = waiting.id for no key update skip locked offset 0) as def
     where def.removed_at is null and not def.suspended and def.schedule_error is null
       and not exists (select from pauses where scope in ('all', 'queue:' || def.queue, 'schedule:' || def.id) offset 0)
     order by def.id);
  locked := stop_taken_schedules(mine);
  mine := array(select id from unnest(mine) as id where id <> all (locked));
  -- Of each schedule the oldest ticks first, so that none takes all places.
  select array_agg(definition_id), array_agg(scheduled_for) into definitions, ticks
    from (select tick.definition_id, tick.scheduled_for
            from schedule_ticks as tick
           where tick.waits_for = 'run' and tick.definition_id = any (mine)
           order by row_number() over (partition by tick.definition_id order by tick.scheduled_for), tick.definition_id
           limit create_dependent_runs.count) as ready;
  if ticks is null then
    return query select 0, 0;
    return;
  end if;
  -- Ticks that became runs when the schedule had a cron expression, or that a backfill runs.
  with done as (
    update schedule_ticks as known set waits_for = null
      from unnest(definitions, ticks) as ready (definition_id, scheduled_for) join job_definitions as def on def.id = ready.definition_id
     where known.definition_id = ready.definition_id and known.scheduled_for = ready.scheduled_for
       and (ready.scheduled_for <= def.last_tick_at
              and ((select id from job_runs as run where run.definition_id = def.id
                and run.scheduled_for = ready.scheduled_for limit 1) is not null
                   or (select id from job_run_history as past
                        where past.definition_id = def.id and past.finished_at >= ready.scheduled_for
                          and past.scheduled_for = ready.scheduled_for and past.status <> 'skipped' limit 1) is not null)
            or (select true from backfill_ticks as item where item.definition_id = def.id and item.tick = ready.scheduled_for limit 1))
    returning known.definition_id, known.scheduled_for
  )
  select array_agg(definition_id), array_agg(scheduled_for) into definitions, ticks
    from (select definition_id, scheduled_for from unnest(definitions, ticks) as ready (definition_id, scheduled_for)
          except table done) as ready;
  if ticks is null then
    return query select 0, 0;
    return;
  end if;
  mine := array(select distinct definition_id from unnest(definitions) as definition_id);

  if exists (select from job_definitions where id = any (mine) and suspend_after_dead is not null) then
    broken := check_circuits(mine);
    select coalesce(array_agg(probe.id), '{}'), coalesce(array_agg(probe.tick), '{}') into probing, probes
      from (select def.id, max(ready.tick) as tick
              from unnest(definitions, ticks) as ready (id, tick) join job_definitions as def on def.id = ready.id
             where def.id = any (broken) and def.circuit_probe_id is null and def.circuit_probe_at <= statement_timestamp()
               and (select true from job_run_history as past       -- `limit`: one lookup for each schedule
                     where past.definition_id = def.id and past.status = 'skipped' and past.reason = 'CircuitOpen'
                       and past.finished_at >= def.circuit_probe_at - circuit_pause(def.circuit_probes) limit 1)
             group by def.id) as probe;
  end if;

  -- Of a schedule whose circuit is open, only a probe replaces.
  locked := (select replacement.locked from replace_runs(array(
    select id from job_definitions
     where id = any (mine) and concurrency_policy = 'Replace' and (id <> all (broken) or id = any (probing)))) as replacement);
  mine := array(select id from unnest(mine) as id where id <> all (locked));

  with tick as materialized (          -- still waiting: another caller may have been first
    select tick.definition_id, tick.scheduled_for, def.concurrency_policy, circuit.is_open,
           lag(tick.definition_id) over older is not null as follows_another,
           lead(tick.definition_id) over older is not null as has_a_later_one
      from unnest(definitions, ticks) as ready (definition_id, scheduled_for)
     cross join lateral (               -- limit and offset here: otherwise it may read whole tables, if the statistics are old
       select * from schedule_ticks as known
        where known.definition_id = ready.definition_id and known.scheduled_for = ready.scheduled_for limit 1) as tick
      join job_definitions as def on def.id = tick.definition_id
     cross join lateral (
       select tick.definition_id = any (broken)
              and not exists (select from unnest(probing, probes) as probe (id, at)
                               where probe.id = tick.definition_id and probe.at = tick.scheduled_for) as is_open) as circuit
     where tick.waits_for = 'run' and tick.definition_id = any (mine)
    window older as (partition by tick.definition_id, circuit.is_open order by tick.scheduled_for)
  ), fate as materialized (
    select tick.definition_id, tick.scheduled_for, nextval('job_runs_id_seq') as run_id,
           case when tick.is_open then 'CircuitOpen'
                when tick.concurrency_policy = 'Forbid' and (tick.follows_another or (
                       select id from job_runs as run
                        where run.definition_id = def.id and run.status in ('queued', 'running', 'failed')
                          and run.trigger <> 'backfill' limit 1) is not null) then 'Forbidden'
                when tick.concurrency_policy = 'Replace' and tick.has_a_later_one then 'Replaced' end as reason
      from tick join job_definitions as def on def.id = tick.definition_id
  ), not_run as (
    insert into job_run_history (
      id, uuid, scheduled_for, run_at, created_at, started_at, finished_at, locked_by, lease_epoch, status, trigger,
      backoff_strategy, backoff_base_s, backoff_cap_s, timeout_s, attempts, max_attempts, crash_count, release_count, priority,
      queue, job_type, payload, definition_id, definition_generation, schedule, reason, skipped_until, skipped_count)
    select fate.run_id, gen_random_uuid(), fate.scheduled_for, fate.scheduled_for, statement_timestamp(), 'epoch',
           statement_timestamp(), 0, 0, 'skipped', 'tick', backoff_strategy, backoff_base_s, backoff_cap_s, timeout_s, 0,
           max_attempts, 0, 0, priority, queue, job_type, payload, def.id, generation, namespace || '/' || name,
           fate.reason, fate.scheduled_for, 1
      from fate join job_definitions as def on def.id = fate.definition_id
     where fate.reason is not null
    returning definition_id
  ), noted as (
    insert into definition_changes (definition_id) select distinct definition_id from not_run
  ), kept as (
    update schedule_ticks as known set waits_for = null, run_id = case when fate.reason is null then fate.run_id end
      from fate where known.definition_id = fate.definition_id and known.scheduled_for = fate.scheduled_for
  )
  select array_agg(definition_id) filter (where reason is null), array_agg(scheduled_for) filter (where reason is null),
         array_agg(run_id) filter (where reason is null), (select count(*) from not_run)
    into definitions, ticks, ids, not_made from fate;
  made := case when ids is null then 0 else insert_dependent_runs(definitions, ticks, ids) end;
  update job_definitions as def set circuit_probe_id = run.id
    from unnest(probing, probes) as probe (id, at)
    join job_runs as run on run.definition_id = probe.id and run.scheduled_for = probe.at and run.trigger = 'tick'
   where def.id = probe.id;
  return query select made, not_made;
end
$$;
