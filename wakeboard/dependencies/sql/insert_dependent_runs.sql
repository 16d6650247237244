-- internal (called by enqueue_ready_ticks and create_dependent_runs)
-- Creates the runs ids[i] of the ticks ticks[i] of the schedules definitions[i], whose dependencies have ended, and records which runs they
-- waited for. Returns the number of runs created. The caller has locked the schedules, and has recorded the ticks in schedule_ticks.

create or replace function wakeboard.insert_dependent_runs(definitions bigint[], ticks timestamptz[], ids bigint[])
returns integer language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
  with run as (
    insert into job_runs (
      id, scheduled_for, run_at, trigger, backoff_strategy, backoff_base_s, backoff_cap_s, timeout_s, max_attempts, priority,
      queue, job_type, payload, definition_id, definition_generation, schedule, limit_key, shared_limit_key, start_before,
      has_dependents)
    overriding system value
    select tick.run_id, tick.scheduled_for, statement_timestamp() + random() * make_interval(secs => jitter_s), 'tick', backoff_strategy,
           backoff_base_s, backoff_cap_s, timeout_s, max_attempts, priority, queue, job_type, payload, def.id, generation,
           namespace || '/' || name,
           case concurrency_policy when 'Allow' then limit_key else 'schedule:' || def.id end,
           case when concurrency_policy <> 'Allow' then limit_key end,
           statement_timestamp() + make_interval(secs => starting_deadline_s), has_dependents
      from unnest(definitions, insert_dependent_runs.ticks, ids) as tick (definition_id, scheduled_for, run_id)
      join job_definitions as def on def.id = tick.definition_id
    on conflict (definition_id, scheduled_for) where trigger = 'tick' do nothing
    returning id, definition_id, scheduled_for
  )
  select array_agg(id), array_agg(definition_id), array_agg(scheduled_for) into ids, definitions, ticks from run;
  update job_definitions as def
     set success_due_at = least(success_due_at, statement_timestamp() + make_interval(secs => expect_success_within_s))
   where def.id = any (definitions) and expect_success_within_s is not null;
  insert into run_dependencies (run_id, place, parent_id, succeeded)
  select run.id, edge.place, past.run_id, true
    from unnest(ids, definitions, insert_dependent_runs.ticks) as run (id, definition_id, scheduled_for)
   cross join lateral (                -- offset here and below: otherwise it may read whole tables, if the statistics are old
     select place, parent_id, ticks from schedule_dependencies where definition_id = run.definition_id offset 0) as edge
   cross join lateral (
     select known.run_id from schedule_ticks as known
      where edge.ticks = 'Same' and known.definition_id = edge.parent_id and known.scheduled_for = run.scheduled_for
        and known.run_id is not null
     union all
     select known.run_id from schedule_ticks as own join schedule_ticks as known on known.scheduled_for > own.since
      where edge.ticks = 'All' and own.definition_id = run.definition_id and own.scheduled_for = run.scheduled_for
        and known.definition_id = edge.parent_id and known.scheduled_for <= run.scheduled_for and known.run_id is not null
     offset 0) as past;
  insert into definition_changes (definition_id) select distinct definition_id from unnest(definitions) as definition_id;
  return coalesce(cardinality(ids), 0);
end
$$;
