-- internal (called by enqueue_dependents and enqueue_joined_ticks)
-- Creates the runs of up to `count` ticks whose dependencies have ended (schedule_ticks.waits_for is 'run'). Those of schedules that are
-- paused, suspended or locked stay. Returns the numbers of runs created and of ticks skipped, because concurrencyPolicy is Forbid.

create or replace function wakeboard.create_dependent_runs(count integer)
returns table (runs integer, skipped integer) language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  definitions bigint[];
  ticks timestamptz[];
  mine bigint[];
  old bigint[];
  locked bigint[];
  over bigint[];
  made integer;
  not_made integer;
begin
  mine := array(
    select def.id from job_definitions as def
     where def.id = any (array(select distinct tick.definition_id from schedule_ticks as tick where tick.waits_for = 'run'))
       and def.removed_at is null and not def.suspended
       and not exists (select from pauses where scope in ('all', 'queue:' || def.queue, 'schedule:' || def.id))
     order by def.id for no key update skip locked);
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
  mine := array(select distinct definition_id from unnest(definitions) as definition_id);

  -- Replace: as in enqueue_due_ticks.
  old := array(
    select run.id from job_runs as run join job_definitions as def on def.id = run.definition_id
     where run.definition_id = any (mine) and def.concurrency_policy = 'Replace' and run.status in ('queued', 'running', 'failed')
       and run.trigger <> 'backfill'
     order by run.id for no key update of run skip locked);
  locked := array(
    select distinct run.definition_id from job_runs as run join job_definitions as def on def.id = run.definition_id
     where run.definition_id = any (mine) and def.concurrency_policy = 'Replace' and run.status in ('queued', 'running', 'failed')
       and run.trigger <> 'backfill' and run.id <> all (old));
  mine := array(select id from unnest(mine) as id where id <> all (locked));
  update job_runs as run set cancel_requested_at = coalesce(run.cancel_requested_at, statement_timestamp()),
                             cancel_reason = coalesce(run.cancel_reason, 'Replaced')
   where run.id = any (old) and run.status = 'running' and run.definition_id <> all (locked);
  select array_agg(run.id) into over from job_runs as run
   where run.id = any (old) and run.status <> 'running' and run.definition_id <> all (locked);
  perform finish_runs(over, 'cancelled', 'Replaced') where over is not null;

  with tick as materialized (          -- still waiting: another caller may have been first
    select tick.definition_id, tick.scheduled_for, tick.since, def.concurrency_policy,
           lag(tick.definition_id) over older is not distinct from tick.definition_id as follows_another,
           lead(tick.definition_id) over older is not distinct from tick.definition_id as has_a_later_one
      from unnest(definitions, ticks) as ready (definition_id, scheduled_for)
     cross join lateral (               -- limit and offset here: otherwise it may read whole tables, if the statistics are old
       select * from schedule_ticks as known
        where known.definition_id = ready.definition_id and known.scheduled_for = ready.scheduled_for limit 1) as tick
      join job_definitions as def on def.id = tick.definition_id
     where tick.waits_for = 'run' and tick.definition_id = any (mine)
    window older as (order by tick.definition_id, tick.scheduled_for)
  ), fate as materialized (
    select tick.definition_id, tick.scheduled_for, tick.since, nextval('job_runs_id_seq') as run_id,
           case when tick.scheduled_for <= def.last_tick_at      -- it had a cron expression then
                     and ((select id from job_runs as run where run.definition_id = def.id and run.scheduled_for = tick.scheduled_for limit 1) is not null
                          or (select id from job_run_history as past
                               where past.definition_id = def.id and past.finished_at >= tick.scheduled_for
                                 and past.scheduled_for = tick.scheduled_for and past.status <> 'skipped' limit 1) is not null) then 'done'
                when tick.concurrency_policy = 'Forbid' and (tick.follows_another or (
                       select id from job_runs as run
                        where run.definition_id = def.id and run.status in ('queued', 'running', 'failed')
                          and run.trigger <> 'backfill' limit 1) is not null) then 'Forbidden'
                when tick.concurrency_policy = 'Replace' and tick.has_a_later_one then 'Replaced' end as reason
      from tick join job_definitions as def on def.id = tick.definition_id
  ), run as (
    insert into job_runs (
      id, scheduled_for, run_at, trigger, backoff_strategy, backoff_base_s, backoff_cap_s, timeout_s, max_attempts, priority,
      queue, job_type, payload, definition_id, definition_generation, schedule, limit_key, shared_limit_key, start_before,
      has_dependents)
    select fate.run_id, fate.scheduled_for, statement_timestamp() + random() * make_interval(secs => jitter_s), 'tick', backoff_strategy,
           backoff_base_s, backoff_cap_s, timeout_s, max_attempts, priority, queue, job_type, payload, def.id, generation,
           namespace || '/' || name,
           case concurrency_policy when 'Allow' then limit_key else 'schedule:' || def.id end,
           case when concurrency_policy <> 'Allow' then limit_key end,
           statement_timestamp() + make_interval(secs => starting_deadline_s), has_dependents
      from fate join job_definitions as def on def.id = fate.definition_id
     where fate.reason is null
    on conflict do nothing
    returning id, definition_id, scheduled_for
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
     where fate.reason in ('Forbidden', 'Replaced')
    returning definition_id
  ), parents as (
    insert into run_dependencies (run_id, place, parent_id, succeeded)
    select run.id, edge.place, past.run_id, true
      from run
      join schedule_ticks as own on own.definition_id = run.definition_id and own.scheduled_for = run.scheduled_for
      join schedule_dependencies as edge on edge.definition_id = run.definition_id
     cross join lateral (
       select known.run_id from schedule_ticks as known
        where known.definition_id = edge.parent_id and known.run_id is not null
          and known.scheduled_for <= run.scheduled_for
          and known.scheduled_for >= case edge.ticks when 'Same' then run.scheduled_for else own.since end
          and (edge.ticks = 'Same' or known.scheduled_for > own.since)
       offset 0) as past
    on conflict do nothing
  ), noted as (
    insert into definition_changes (definition_id)
    select distinct definition_id from (select definition_id from run union all select definition_id from not_run) as changed
  ), kept as (
    update schedule_ticks as known set waits_for = null, run_id = case when fate.reason is null then fate.run_id end
      from fate where known.definition_id = fate.definition_id and known.scheduled_for = fate.scheduled_for
  )
  select (select count(*) from run), (select count(*) from not_run) into made, not_made;
  return query select made, not_made;
end
$$;
