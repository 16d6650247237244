-- internal (called by sync_definitions)
-- Stores spec.after of those of the declared schedules `rows` that are stored as declared. A parent that does not exist yet is found when
-- it is created. Marks the parents and their live runs (has_dependents), so that `complete` notes their ends. A tick whose run is not
-- created yet waits for the new entries, also of a suspended schedule. A tick that waited for an entry that is gone, for example because
-- its run is dead, is created if the others have ended.

create or replace function wakeboard.store_dependencies(source text, rows jsonb)
returns void language plpgsql security definer
set jit = off
as $$
#variable_conflict use_column
declare
  declared bigint[];
  newly bigint[];                      -- schedules that others run after from now on
  former jsonb;                        -- the entries of the declared schedules until now
  edited bigint[];
  freed bigint[];                      -- of these, those with entries that are gone, unless they are suspended
  waiting_definitions bigint[]; waiting_ticks timestamptz[];
begin
  if not exists (select from schedule_dependencies) and not jsonb_path_exists(rows, '$[*].after[*]') then
    return;
  end if;
  declared := array(
    select def.id
      from jsonb_to_recordset(rows) as wanted (namespace text, name text, spec_hash text)
      join job_definitions as def on def.source = store_dependencies.source and def.namespace = wanted.namespace and def.name = wanted.name
       and def.spec_hash = wanted.spec_hash and def.removed_at is null);
  select coalesce(jsonb_agg(edge), '[]') into former from schedule_dependencies as edge where edge.definition_id = any (declared);
  with stored as (
    select def.id, case jsonb_typeof(wanted.after) when 'array' then wanted.after else '[]' end as after
      from jsonb_to_recordset(rows) as wanted (namespace text, name text, spec_hash text, after jsonb)
      join job_definitions as def on def.source = store_dependencies.source and def.namespace = wanted.namespace and def.name = wanted.name
       and def.spec_hash = wanted.spec_hash and def.removed_at is null
  ), wanted as (
    select stored.id, entry.place::integer as place, entry.value ->> 'schedule' as parent,
           coalesce(entry.value ->> 'outcome', 'Succeeded') as outcome, coalesce(entry.value ->> 'ticks', 'Same') as ticks
      from stored cross join lateral jsonb_array_elements(stored.after) with ordinality as entry (value, place)
  ), gone as (
    delete from schedule_dependencies as edge using stored
     where edge.definition_id = stored.id
       and not exists (select from wanted where wanted.id = edge.definition_id and wanted.place = edge.place)
  )
  insert into schedule_dependencies as edge (definition_id, place, parent_name, outcome, ticks)
  select id, place, parent, outcome, ticks from wanted order by id, place
  on conflict on constraint an_entry_of_after_has_one_place do update
     set parent_name = excluded.parent_name, outcome = excluded.outcome, ticks = excluded.ticks,
         parent_id = case when edge.parent_name = excluded.parent_name then edge.parent_id end
   where (edge.parent_name, edge.outcome, edge.ticks) is distinct from (excluded.parent_name, excluded.outcome, excluded.ticks);
  -- A subquery, because a join may read all schedules of the namespace for each entry, if the statistics are old.
  update schedule_dependencies as edge set parent_id = found.parent_id
    from (select missing.definition_id, missing.place,
                 (select parent.id from job_definitions as parent
                   where parent.source = child.source and parent.namespace = child.namespace and parent.name = missing.parent_name)
                   as parent_id
            from schedule_dependencies as missing join job_definitions as child on child.id = missing.definition_id
           where missing.parent_id is null) as found
   where edge.definition_id = found.definition_id and edge.place = found.place and found.parent_id is not null;
  -- Live runs count, too. After the parents are locked, none of them gets a run without the mark.
  newly := array(
    select def.id from job_definitions as def
     where def.source = store_dependencies.source and def.has_dependents is not true
       and def.id in (select parent_id from schedule_dependencies where parent_id is not null)
     order by def.id for no key update);
  update job_definitions set has_dependents = true where id = any (newly);
  update job_runs set has_dependents = true where definition_id = any (newly) and has_dependents is not true and trigger <> 'manual';
  update job_definitions set has_dependents = null
   where id = any (array(
     select def.id from job_definitions as def
      where def.source = store_dependencies.source and def.has_dependents
        and not exists (select from schedule_dependencies where parent_id = def.id)
      order by def.id for no key update skip locked));       -- a mark that stays costs a row of ended_runs for each end

  -- Ticks that wait do so for the new entries. Others may have waited for an entry that is gone.
  with entry as (
    select definition_id, parent_name, outcome, ticks from jsonb_populate_recordset(null::schedule_dependencies, former)
  ), current as (
    select definition_id, parent_name, outcome, ticks from schedule_dependencies where definition_id in (select definition_id from entry)
  ), gone as (
    table entry except table current
  )
  select array_agg(distinct def.id) filter (where not def.suspended and def.id in (select definition_id from gone)),
    array_agg(distinct def.id)
    into freed, edited
    from (table gone union (table current except table entry)) as changed join job_definitions as def on def.id = changed.definition_id;
  if edited is not null then
    with waiting as (
      delete from schedule_ticks where definition_id = any (edited) and waits_for is not null and outcome is null
      returning definition_id, scheduled_for
    )
    select array_agg(definition_id), array_agg(scheduled_for) into waiting_definitions, waiting_ticks
      from (select definition_id, scheduled_for from waiting
            union
            select entry.definition_id, run.scheduled_for
              from jsonb_populate_recordset(null::schedule_dependencies, former) as entry
              join job_runs as run on run.definition_id = entry.parent_id and run.trigger <> 'manual'
             where entry.definition_id = any (freed)
            union                        -- the newest tick may have waited for a run that does not exist yet
            select edge.definition_id, max(past.scheduled_for)
              from schedule_dependencies as edge
              join schedule_ticks as past on past.definition_id = edge.parent_id and past.outcome is not null
             where edge.definition_id = any (freed) and edge.ticks = 'Same'
             group by edge.definition_id
            having max(past.scheduled_for) > (select max(own.scheduled_for) from schedule_ticks as own
              where own.definition_id = edge.definition_id)
           ) as ready;
    perform enqueue_ready_ticks(waiting_definitions, waiting_ticks, 0, also_suspended => true) where waiting_ticks is not null;
  end if;
  -- The status of a schedule names parents that do not exist.
  insert into definition_changes (definition_id)
  select distinct definition_id from schedule_dependencies where parent_id = any (declared);
end
$$;
