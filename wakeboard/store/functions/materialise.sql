-- for: worker, operator
-- Makes ticks into runs and moves cursors. Of each definition (ids[i]) the caller read generations[i] and cursors[i] and
-- computed next_cursors[i] (null: no further tick), made up_to[i] the newest tick that is dealt with, and errors[i] (null,
-- or why ticks cannot be computed: the definition then stands still, alone).
-- ticks: (tick_definitions[k], tick_times[k]) in order of time; stretches that are not run:
-- (skip_definitions[k], from, until, count, reason).
-- Whoever finds cursor or generation changed, or the row locked, does nothing with that definition: another did the work.
-- Two statements: definitions are locked first; what is unfinished is then judged in a snapshot from after the lock.
-- Answers with what was made.

create or replace function wakeboard.materialise(
  ids bigint[], generations bigint[], cursors timestamptz[], next_cursors timestamptz[], up_to timestamptz[], errors text[],
  tick_definitions bigint[], tick_times timestamptz[],
  skip_definitions bigint[], skip_from timestamptz[], skip_until timestamptz[], skip_counts bigint[], skip_reasons text[])
returns table (definitions integer, runs integer, skipped bigint, replaced integer) language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
  mine bigint[];
  over bigint[];
  made integer := 0;
  given_up bigint := 0;
begin
  select array_agg(id) into mine
    from (select def.id
            from unnest(ids, generations, cursors) as plan (id, generation, cursor)
            join job_definitions as def on def.id = plan.id
           where def.generation = plan.generation and def.next_run_at = plan.cursor
             and def.removed_at is null and not def.suspended
           order by def.id
             for update of def skip locked) as locked;
  if mine is null then
    return query select 0, 0, 0::bigint, 0;
    return;
  end if;

  -- Replace: what is queued or will be retried gives way now; what runs is asked to stop.
  with old as (
    select run.id, run.status
      from (select unnest(mine) intersect select unnest(tick_definitions)) as ticking (id)
      join job_definitions as def on def.id = ticking.id and def.concurrency_policy = 'Replace'
      join job_runs as run on run.definition_id = def.id
     where run.status in ('queued', 'running', 'failed')
     order by run.id
       for update of run
  ), asked as (
    update job_runs as run set cancel_requested_at = coalesce(run.cancel_requested_at, statement_timestamp())
      from old where run.id = old.id and old.status = 'running'
  )
  select array_agg(id) filter (where status <> 'running') into over from old;
  perform finish_runs(over, 'cancelled', 'Replaced') where over is not null;

  with tick as (
    select def.*, tick.at,
           case def.concurrency_policy
             when 'Forbid' then case
               when row_number() over (partition by def.id order by tick.at) > 1
                 or exists (select from job_runs as run where run.definition_id = def.id and run.status in ('queued', 'running', 'failed'))
               then 'Forbidden' end
             when 'Replace' then case
               when row_number() over (partition by def.id order by tick.at desc) > 1 then 'Replaced' end
           end as reason
      from unnest(tick_definitions, tick_times) as tick (definition_id, at)
      join unnest(mine) as locked (id) on locked.id = tick.definition_id
      join job_definitions as def on def.id = locked.id
     where tick.at > def.last_tick_at
  ), run as (
    insert into job_runs (
      scheduled_for, run_at, trigger, backoff_strategy, backoff_base_s, backoff_cap_s, timeout_s, max_attempts, priority,
      queue, job_type, payload, definition_id, definition_generation, schedule, limit_key, start_before)
    select at, at + random() * make_interval(secs => jitter_s), 'tick', backoff_strategy, backoff_base_s, backoff_cap_s, timeout_s,
           max_attempts, priority, queue, job_type, payload, id, generation, namespace || '/' || name,
           coalesce(limit_key, case when concurrency_policy <> 'Allow' then 'schedule:' || id end),
           at + make_interval(secs => starting_deadline_s)
      from tick where reason is null
     order by id, at
    returning 1
  ), not_run as (
    insert into job_run_history (
      id, uuid, scheduled_for, run_at, created_at, started_at, finished_at, locked_by, lease_epoch, status, trigger,
      backoff_strategy, backoff_base_s, backoff_cap_s, timeout_s, attempts, max_attempts, crash_count, release_count, priority,
      queue, job_type, payload, definition_id, definition_generation, schedule, reason, skipped_until, skipped_count)
    select nextval('job_runs_id_seq'), gen_random_uuid(), stretch.began, stretch.began, statement_timestamp(), 'epoch',
           statement_timestamp(), 0, 0, 'skipped', 'tick', backoff_strategy, backoff_base_s, backoff_cap_s, timeout_s, 0,
           max_attempts, 0, 0, priority, queue, job_type, payload, def.id, generation, namespace || '/' || name,
           stretch.why, stretch.until, stretch.count
      from (select definition_id, began, until, count, why
              from unnest(skip_definitions, skip_from, skip_until, skip_counts, skip_reasons)
                as stretch (definition_id, began, until, count, why)
            union all
            select id, at, at, 1, tick.reason from tick where tick.reason is not null) as stretch
      join unnest(mine) as locked (id) on locked.id = stretch.definition_id
      join job_definitions as def on def.id = locked.id
     where stretch.until > def.last_tick_at
    returning skipped_count
  ), noted as (
    insert into definition_changes (definition_id) select unnest(mine)
  ), moved as (
    update job_definitions as def
       set next_run_at = plan.next_cursor, last_tick_at = greatest(def.last_tick_at, plan.up_to), tick_error = plan.error
      from unnest(ids, next_cursors, up_to, errors) as plan (id, next_cursor, up_to, error)
      join unnest(mine) as locked (id) using (id)
     where def.id = plan.id
  )
  select (select count(*) from run), (select coalesce(sum(skipped_count), 0) from not_run) into made, given_up;
  return query select cardinality(mine), made, given_up, coalesce(cardinality(over), 0);
end
$$;
