-- for: worker, operator
-- Creates the runs of those ticks (definitions[i], ticks[i]) for which all the ticks (parents[k], parent_ticks[k]) with owners[k] = i have
-- ended, as `joins_to_check` asks for. since[i]: the tick of the schedule before; null if its ticks cannot be computed. Those of
-- schedules that another transaction has locked are left to the next call. Returns the number of runs created.

create or replace function wakeboard.enqueue_joined_ticks(
  definitions bigint[], ticks timestamptz[], since timestamptz[], owners integer[], parents bigint[], parent_ticks timestamptz[])
returns integer language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
set lock_timeout = '2s'
as $$
declare
  mine bigint[];
begin
  perform require_read_committed('enqueue_joined_ticks');
  if (cardinality(definitions) = all (array[cardinality(ticks), cardinality(since)])
      and cardinality(owners) = all (array[cardinality(parents), cardinality(parent_ticks)])
      and coalesce(array_ndims(definitions), 1) = 1 and coalesce(array_ndims(owners), 1) = 1) is not true then
    raise exception using errcode = '22023', message = 'arrays of enqueue_joined_ticks are null or differ in length';
  end if;
  mine := array(select def.id from job_definitions as def where def.id = any (definitions) order by def.id for no key update skip locked);
  update schedule_ticks as known
     set since = joined.since,
         waits_for = case when joined.since is null or exists (
           select from unnest(owners, parents, parent_ticks) as part (owner, parent_id, tick)
            where part.owner = joined.place
              and not exists (
                select from schedule_ticks as past
                  join schedule_dependencies as edge on edge.definition_id = joined.definition_id and edge.parent_id = past.definition_id
                 where past.definition_id = part.parent_id and past.scheduled_for = part.tick
                   and (past.outcome = 'succeeded' or edge.outcome = 'Ended' and past.outcome is not null))) then 'ticks' else 'run' end
    from unnest(definitions, ticks, enqueue_joined_ticks.since) with ordinality as joined (definition_id, tick, since, place)
   where known.definition_id = joined.definition_id and known.scheduled_for = joined.tick and known.waits_for = 'check'
     and known.definition_id = any (mine);
  return (select runs from create_dependent_runs(cardinality(definitions)));
end
$$;
