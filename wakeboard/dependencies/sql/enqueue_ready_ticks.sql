-- internal (called by enqueue_dependents and store_dependencies)
-- Records in schedule_ticks those of the ticks (definitions[i], ticks[i]) for which the runs of all parents have ended as `after` wants. It
-- creates the runs of up to `at_once` of them, and returns how many it created. `create_dependent_runs` creates those of the others: of
-- schedules that are paused or stopped, have a circuit, or a concurrencyPolicy other than Allow, and of ticks from when a schedule had a
-- cron expression or that a backfill has. Parents with `ticks: All` are left to `joins_to_check`. A tick that is recorded already stays as
-- it is, and those of schedules that are removed, or have no parents, are not recorded; those of suspended ones are if `also_suspended`,
-- for an edit. The caller has locked the schedules.

create or replace function wakeboard.enqueue_ready_ticks(definitions bigint[], ticks timestamptz[], at_once integer, also_suspended boolean)
returns integer language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
#variable_conflict use_column
declare
  run_definitions bigint[];
  run_ticks timestamptz[];
  ids bigint[];
begin
  with ready as (
    select def.id, candidate.tick, entries.has_joins,
           not entries.has_joins and candidate.tick > def.last_tick_at and def.concurrency_policy = 'Allow'
             and def.suspend_after_dead is null and def.schedule_error is null
           and not exists (select from pauses where scope in ('all', 'queue:' || def.queue, 'schedule:' || def.id) offset 0)
           and not exists (select from backfill_ticks as item where item.definition_id = def.id and item.tick = candidate.tick) as is_simple
      from (select distinct definition_id, tick
        from unnest(definitions, enqueue_ready_ticks.ticks) as wanted (definition_id, tick)) as candidate
     cross join lateral (              -- by id, as in enqueue_due_ticks
       select * from job_definitions as known where known.id = candidate.definition_id offset 0) as def
     cross join lateral (              -- of all entries in one index scan
       select bool_or(edge.ticks = 'Same') as has_same, bool_or(edge.ticks = 'All') as has_joins,
              bool_and(edge.ticks = 'All' or exists (
                select from schedule_ticks as past
                 where past.definition_id = edge.parent_id and past.scheduled_for = candidate.tick
                   and (past.outcome = 'succeeded' or edge.outcome = 'Ended' and past.outcome is not null))) as all_ended
         from schedule_dependencies as edge where edge.definition_id = def.id) as entries
     where def.removed_at is null and (also_suspended or not def.suspended) and entries.has_same and entries.all_ended
       and not exists (                -- an insert would wait for a transaction that is changing it
         select from schedule_ticks as known where known.definition_id = candidate.definition_id and known.scheduled_for = candidate.tick)
     order by candidate.definition_id, candidate.tick
  ), recorded as (
    insert into schedule_ticks (definition_id, scheduled_for, run_id, waits_for)
    select id, tick, case when now then nextval('job_runs_id_seq') end, case when has_joins then 'check' when not now then 'run' end
      from (select id, tick, has_joins, is_simple and row_number() over () <= at_once as now from ready) as planned
    on conflict on constraint a_schedule_has_each_tick_once do nothing
    returning definition_id, scheduled_for, run_id
  )
  select array_agg(definition_id), array_agg(scheduled_for), array_agg(run_id) into run_definitions, run_ticks, ids
    from recorded where run_id is not null;
  return case when ids is null then 0 else insert_dependent_runs(run_definitions, run_ticks, ids) end;
end
$$;
