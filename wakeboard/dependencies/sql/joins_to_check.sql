-- for: worker, operator
-- Returns up to `count` ticks of schedules with `ticks: All` of which the caller must find out the ticks that they wait for: one row for
-- each parent with `ticks: All`. Those of schedules that another transaction has locked are left out. The columns that begin with own_ and
-- parent_ are the cron expressions that the ticks of the schedule, and of the parent, come from: their own or that of the first schedule
-- before them that has one. They are null if there is none.

create or replace function wakeboard.joins_to_check(count wakeboard.row_count default 100)
returns table (
  definition_id bigint, scheduled_for timestamptz, parent_id bigint,
  own_fields text, own_zone text, own_gap text, own_overlap text,
  parent_fields text, parent_zone text, parent_gap text, parent_overlap text)
language plpgsql security definer
set enable_seqscan = off set jit = off set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  mine bigint[] := array(
    select def.id from job_definitions as def
     where def.id = any (array(select distinct tick.definition_id from schedule_ticks as tick where tick.waits_for = 'check'))
       and exists (select from schedule_dependencies as edge where edge.definition_id = def.id and edge.ticks = 'All')
     order by def.id for no key update skip locked);
begin
  return query
  select tick.definition_id, tick.scheduled_for, edge.parent_id,
         own.cron_fields, own.time_zone, own.dst_gap, own.dst_overlap,
         pace.cron_fields, pace.time_zone, pace.dst_gap, pace.dst_overlap
    from (select definition_id, scheduled_for from schedule_ticks
           where waits_for = 'check' and definition_id = any (mine)
           order by definition_id, scheduled_for limit joins_to_check.count) as tick
    join schedule_dependencies as edge on edge.definition_id = tick.definition_id and edge.ticks = 'All'
    left join job_definitions as own on own.id = source_of_ticks(tick.definition_id)
    left join job_definitions as pace on pace.id = source_of_ticks(edge.parent_id);
end
$$;
