-- for: worker, operator
-- Turns due ticks into runs and advances the schedules' cursors. For each schedule ids[i], the caller has read generations[i] and
-- cursors[i] (next_run_at) and computed next_cursors[i] (null: no further tick), up_to[i] (the newest tick handled; null: none) and
-- errors[i] (null, or why ticks cannot be computed: then only that schedule stops; its cursor stays, and next_cursors[i] is ignored).
-- Ticks to run: (tick_definitions[k], tick_times[k]), grouped by schedule and ordered by time. Ranges of ticks to skip:
-- skip_definitions[k], skip_from[k], skip_until[k], skip_counts[k], skip_reasons[k]. compiled[i]: the compiled expression of a schedule
-- that had none or has former_timings (null: it has one; {}: all have). One of an application that has no further tick is removed. A
-- schedule that is not due, whose cursor or generation has changed, or whose row is locked, is left as it is. A declared one whose name an
-- application has stops. A Replace tick waits for the next call while another transaction has locked a run that it replaces; other ticks
-- do not wait for it. Schedules are locked first; unfinished runs are read in a snapshot from after the lock. While the circuit of a
-- schedule is open (suspend_after_dead), its ticks are skipped (CircuitOpen), except probes. Returns the numbers of schedules advanced,
-- runs created, ticks skipped and runs replaced. A repeat changes nothing.

create or replace function wakeboard.enqueue_due_ticks(
  ids bigint[], generations bigint[], cursors timestamptz[], next_cursors timestamptz[], up_to timestamptz[], errors text[],
  tick_definitions bigint[], tick_times timestamptz[],
  skip_definitions bigint[], skip_from timestamptz[], skip_until timestamptz[], skip_counts bigint[], skip_reasons text[],
  compiled text[] default '{}')
returns table (definitions integer, runs integer, skipped bigint, replaced integer) language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
set plan_cache_mode = force_generic_plan set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  mine bigint[];
  all_mine boolean;                    -- nearly always; then no lookup in `mine` is needed
  noted bigint[];                      -- an object may have their status
  guarded bigint[];                    -- have suspend_after_dead
  broken bigint[] := '{}';             -- their circuit is open
  probing bigint[];
  probes timestamptz[];
  replacing bigint[];
  stopped bigint[];
  locked bigint[];
  made integer;
  skipped_total bigint;
begin
  perform require_read_committed('enqueue_due_ticks');
  perform check_due_ticks(ids, generations, cursors, next_cursors, up_to, errors, tick_definitions, tick_times,
                          skip_definitions, skip_from, skip_until, skip_counts, skip_reasons, compiled);
  select array_agg(id), array_agg(id) filter (where concurrency_policy = 'Replace' and id = any (tick_definitions)),
         array_agg(id) filter (where suspend_after_dead is not null), array_agg(id) filter (where source <> 'app')
    into mine, replacing, guarded, noted
    from (select def.id, def.source, def.concurrency_policy, def.suspend_after_dead
            from unnest(ids, generations, cursors, compiled) as plan (id, generation, cursor, compiled)
            join job_definitions as def on def.id = plan.id
           where def.generation = plan.generation and def.next_run_at = plan.cursor and def.next_run_at <= statement_timestamp()
             and not def.suspended and def.schedule_error is null                  -- another caller may have stopped it
             and coalesce(def.removed_at, 'infinity') = 'infinity'                 -- is null, but by id: without statistics, Postgres takes
             and (def.former_timings is null or plan.compiled is not null)         -- the index of the due ones to be almost empty
           order by def.id
             for update of def skip locked) as locked;
  if mine is null then
    return query select 0, 0, 0::bigint, 0;
    return;
  end if;
  all_mine := cardinality(mine) = cardinality(ids);
  if noted is not null then
    stopped := stop_taken_schedules(noted);
    if stopped <> '{}' then
      mine := array(select id from unnest(mine) as id where id <> all (stopped));
      replacing := array(select id from unnest(replacing) as id where id <> all (stopped));
      guarded := array(select id from unnest(guarded) as id where id <> all (stopped));
      all_mine := false;
    end if;
  end if;

  if guarded is not null then
    broken := check_circuits(guarded);
    select array_agg(probe.id), array_agg(probe.at) into probing, probes
      from (select def.id, max(tick.at) as at
              from unnest(tick_definitions, tick_times) as tick (definition_id, at)
              join job_definitions as def on def.id = tick.definition_id
             where def.id = any (broken) and def.circuit_probe_id is null and tick.at > def.last_tick_at
             group by def.id, def.circuit_probe_at
            having max(tick.at) >= def.circuit_probe_at) as probe
     where broken <> '{}';
  end if;

  if replacing is not null then              -- of a schedule whose circuit is open, only a probe replaces
    select * into locked, replaced
      from replace_runs(array(select id from unnest(replacing) as id where id <> all (broken) or id = any (probing)));
    if locked <> '{}' then                   -- these wait for the next call; the others are enqueued
      mine := array(select id from unnest(mine) as id where id <> all (locked));
      all_mine := false;
    end if;
  end if;

  with tick as (
    select tick.definition_id, tick.at,
           case
             when def.id = any (broken)                                            -- the last tick may be a probe
              and not exists (select from unnest(probing, probes) as probe (id, at) where probe.id = def.id and probe.at = tick.at)
               then 'CircuitOpen'
             when def.concurrency_policy = 'Forbid' then case
               when tick_definitions[tick.place - 1] = tick.definition_id          -- it is not the first of its definition
                    and def.id <> all (broken)
                 or exists (select from job_runs as run
                             where run.definition_id = def.id and run.status in ('queued', 'running', 'failed')
                               and run.trigger <> 'backfill'
                            offset 0)                                              -- never hashed: that reads all of job_runs
               then 'Forbidden' end
             when def.concurrency_policy = 'Replace'
              and tick_definitions[tick.place + 1] = tick.definition_id            -- it is not the last one
               then 'Replaced'
           end as reason
      from unnest(tick_definitions, tick_times) with ordinality as tick (definition_id, at, place)
      join job_definitions as def on def.id = tick.definition_id
     where (all_mine or def.id = any (mine)) and tick.at > def.last_tick_at
  ), run as (
    insert into job_runs (
      scheduled_for, run_at, trigger, backoff_strategy, backoff_base_s, backoff_cap_s, timeout_s, max_attempts, priority, queue, job_type,
      payload, definition_id, definition_generation, schedule, limit_key, shared_limit_key, start_before, has_dependents)
    select at, at + random() * make_interval(secs => jitter_s), 'tick', backoff_strategy, backoff_base_s, backoff_cap_s, timeout_s,
           max_attempts, priority, queue, job_type, payload, id, generation, namespace || '/' || name,
           case concurrency_policy when 'Allow' then limit_key else 'schedule:' || id end,
           case when concurrency_policy <> 'Allow' then limit_key end, at + make_interval(secs => starting_deadline_s), has_dependents
      from tick join job_definitions as def on def.id = tick.definition_id
     where reason is null
    returning 1
  ), not_run as (
    insert into job_run_history (
      id, uuid, scheduled_for, run_at, created_at, started_at, finished_at, locked_by, lease_epoch, status, trigger, backoff_strategy,
      backoff_base_s, backoff_cap_s, timeout_s, attempts, max_attempts, crash_count, release_count, priority, queue, job_type, payload,
      definition_id, definition_generation, schedule, reason, skipped_until, skipped_count)
    select nextval('job_runs_id_seq'), gen_random_uuid(), skip_range.began, skip_range.began, statement_timestamp(), 'epoch',
           statement_timestamp(), 0, 0, 'skipped', 'tick', backoff_strategy, backoff_base_s, backoff_cap_s, timeout_s, 0,
           max_attempts, 0, 0, priority, queue, job_type, payload, def.id, generation, namespace || '/' || name,
           left(skip_range.why, 100), skip_range.until, skip_range.count
      from (select definition_id, began, until, count, why
              from unnest(skip_definitions, skip_from, skip_until, skip_counts, skip_reasons)
                as skip_range (definition_id, began, until, count, why)
             where all_mine or definition_id = any (mine)
            union all
            select definition_id, min(at), max(at), count(*), reason from tick where reason is not null
             group by definition_id, reason) as skip_range
      join job_definitions as def on def.id = skip_range.definition_id
     where skip_range.until > def.last_tick_at
    returning skipped_count
  ), written as (
    insert into definition_changes (definition_id) select unnest(noted)
  ), advanced_rows as (
    update job_definitions as def
       set next_run_at = case when plan.error is null then plan.next_cursor else def.next_run_at end,
           last_tick_at = greatest(def.last_tick_at, plan.up_to),
           schedule_error = left(plan.error, 500),
           cron_fields = coalesce(case when plan.error is null and def.schedule is not null then plan.compiled end, def.cron_fields),
           former_timings = case when plan.error is not null then def.former_timings end,
           removed_at = case when plan.next_cursor is null and plan.error is null and def.source = 'app' and def.schedule is not null
                             then statement_timestamp() end
      from unnest(ids, next_cursors, up_to, errors, compiled) as plan (id, next_cursor, up_to, error, compiled)
     where def.id = plan.id and (all_mine or def.id = any (mine))
  )
  select (select count(*) from run), (select coalesce(sum(skipped_count), 0) from not_run) into made, skipped_total;
  if probing is not null then
    update job_definitions as def set circuit_probe_id = run.id
      from unnest(probing, probes) as probe (id, at)
      join job_runs as run on run.definition_id = probe.id and run.scheduled_for = probe.at and run.trigger = 'tick'
     where def.id = probe.id;
  end if;
  return query select cardinality(mine), made, skipped_total, coalesce(replaced, 0);
end
$$;
