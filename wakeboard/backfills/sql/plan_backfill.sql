-- for: operator
-- What is known about each of these ticks of a schedule, each once: 'new' (nothing: it may be older than the history), 'skipped' (the
-- history says that it did not run), 'unfinished' (a run of it is queued, running or failed), 'dead', 'ran' (a run of it succeeded),
-- 'discarded', 'waiting' (another backfill will run it), or 'scheduled' (it is due now or later, so the schedule runs it). Runs that were
-- cancelled do not count. `create_backfill` runs the ticks that are new or skipped, and with `again` those that are dead, ran or discarded,
-- too. Changes nothing.
-- Example:
--   select found, count(*) from wakeboard.plan_backfill(1, '{2026-01-01 02:00Z, 2026-01-02 02:00Z}') group by 1;

create or replace function wakeboard.plan_backfill(definition wakeboard.definition_number, ticks wakeboard.backfill_tick_array)
returns table (tick timestamptz, found text) language plpgsql stable security definer
set jit = off
as $$
#variable_conflict use_column
declare
  def job_definitions;
  first_tick timestamptz := (select min(at) from unnest(ticks) as at);
begin
  select * into def from job_definitions where id = plan_backfill.definition;
  return query
  with wanted as materialized (
    select distinct at as tick from unnest(ticks) as at
  ), live as materialized (
    select scheduled_for as tick, bool_or(status <> 'dead') as unfinished
      from job_runs where definition_id = def.id group by 1
  ), past as materialized (              -- a run ends after its tick
    select scheduled_for as tick, bool_or(status = 'succeeded') as succeeded
      from job_run_history
     where definition_id = def.id and finished_at >= first_tick and status in ('succeeded', 'dead') group by 1
  ), backfilled as materialized (        -- an ended run that the history has no longer
    select item.tick, bool_or(item.run_id is null) as waiting
      from backfill_ticks as item
     where item.definition_id = def.id and item.tick >= first_tick
       and not exists (select from job_run_history as cancelled where cancelled.id = item.run_id and cancelled.status = 'cancelled')
     group by 1
  ), timeline as (                       -- whether a range of skipped ticks that began before a tick ends at it or later
    select at, is_tick, max(until) over (order by at, is_tick) >= at as skipped
      from (select tick as at, true as is_tick, null as until from wanted
            union all
            select scheduled_for, false, coalesce(skipped_until, scheduled_for)
              from job_run_history
             where definition_id = def.id and finished_at >= first_tick and status = 'skipped') as event
  )
  select wanted.tick,
         case when wanted.tick >= def.next_run_at then 'scheduled'
              when backfilled.waiting then 'waiting'
              when live.unfinished then 'unfinished'
              when past.succeeded then 'ran'
              when not live.unfinished then 'dead'
              when not past.succeeded then 'discarded'
              when not backfilled.waiting then 'ran'
              when timeline.skipped then 'skipped'
              else 'new' end
    from wanted
    left join live using (tick)
    left join past using (tick)
    left join backfilled using (tick)
    join timeline on timeline.at = wanted.tick and timeline.is_tick
   order by 1;
end
$$;
