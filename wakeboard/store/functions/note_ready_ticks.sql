-- internal (called by enqueue_dependents and store_dependencies)
-- Records in schedule_ticks those of the ticks (definitions[i], ticks[i]) for which the runs of all parents have ended as `after` wants,
-- so that `create_dependent_runs` creates their runs. Parents with `ticks: All` are left to `joins_to_check`. A tick that is recorded
-- already, and those of schedules that are removed or suspended, or have no parents, stay as they are. The caller has locked the schedules.

create or replace function wakeboard.note_ready_ticks(definitions bigint[], ticks timestamptz[])
returns void language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
#variable_conflict use_column
begin
  insert into schedule_ticks (definition_id, scheduled_for, waits_for)
  select candidate.id, candidate.tick,
         case when exists (select from schedule_dependencies as edge where edge.definition_id = candidate.id and edge.ticks = 'All')
              then 'check' else 'run' end
    from (select distinct def.id, wanted.tick
            from unnest(definitions, note_ready_ticks.ticks) as wanted (definition_id, tick)
            join job_definitions as def on def.id = wanted.definition_id and def.removed_at is null and not def.suspended) as candidate
   where exists (select from schedule_dependencies as edge where edge.definition_id = candidate.id and edge.ticks = 'Same')
     and not exists (
       select from schedule_dependencies as edge
        where edge.definition_id = candidate.id and edge.ticks = 'Same'
          and not exists (select from schedule_ticks as past
                           where past.definition_id = edge.parent_id and past.scheduled_for = candidate.tick
                             and (past.outcome = 'succeeded' or edge.outcome = 'Ended' and past.outcome is not null)))
   order by candidate.id, candidate.tick
  on conflict on constraint a_schedule_has_each_tick_once do nothing;
end
$$;
