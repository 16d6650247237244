-- for: worker, operator
-- Creates the runs of schedules whose dependencies have ended, and lets runs start whose parents have succeeded. It consumes up to
-- `count` rows of `ended_runs`. If another transaction has locked one of the schedules or runs that wait for such a row, or what is recorded
-- of them (schedule_ticks, run_dependencies), the row stays for the next call, which does only what is left: the others that wait for it
-- are not held up, and neither are other rows, which the call consumes in its place. Of a tick, a schedule gets one run, whatever is
-- retried, replayed or edited; its concurrencyPolicy applies, and its circuit (suspend_after_dead). While a schedule is paused, its ticks
-- wait; those whose parents end while it is suspended get no run. It waits for no locked row; while another transaction is inserting ticks,
-- a call takes 0.4 s longer at most.
-- Returns the numbers of rows consumed, of runs created, of ticks skipped (Forbidden, Replaced or CircuitOpen) and of runs that may start
-- now; and whether ticks of schedules with `ticks: All` must be checked: then call `joins_to_check` and `enqueue_joined_ticks`.
-- Example:
--   select * from wakeboard.enqueue_dependents();

create or replace function wakeboard.enqueue_dependents(count wakeboard.row_count default 1000)
returns table (ended integer, runs integer, skipped integer, started integer, has_joins boolean) language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  start tid := '(0,0)';
  rows tid[];
  children bigint[];                   -- schedules
  dependents bigint[];                 -- runs
  mine bigint[];
  my_runs bigint[];
  succeeded_ids bigint[];
  busy bigint[];                       -- schedules, and runs, that other transactions have locked
  busy_runs bigint[];
  left_schedules bigint[];             -- parents of these
  left_runs bigint[];
  left_rows tid[];
  free_rows tid[];                     -- of run_dependencies or schedule_ticks
  held_definitions bigint[];           -- ticks that other transactions have locked or are inserting
  held_ticks timestamptz[];
  again boolean;
  ids bigint[]; definitions bigint[]; ticks timestamptz[]; outcomes text[];
  wanted_count integer;
  found_count integer;
  ended_now integer;
  ended_count integer := 0;
  freed_now integer;
  freed integer := 0;
  made integer := 0;
  made_now integer;
  at_once integer;                     -- runs that `enqueue_ready_ticks` may create
begin
  perform require_read_committed('enqueue_dependents');
  -- A row frees one schedule or a few, so a tenth more than `count` is nearly always enough. Ticks that wait already, for
  -- `create_dependent_runs`, get their places first, but at most half of them.
  at_once := enqueue_dependents.count + enqueue_dependents.count / 10
    - (select count(*) from (select from schedule_ticks where waits_for = 'run' limit enqueue_dependents.count / 2) as waiting);
  for part in 1..6 loop
    wanted_count := enqueue_dependents.count - ended_count;
    select array_agg(place), array_agg(run_id), array_agg(definition_id), array_agg(scheduled_for), array_agg(outcome), count(*)
      into rows, ids, definitions, ticks, outcomes, found_count
      from (select ctid as place, run_id, definition_id, scheduled_for, outcome from ended_runs
             where ctid > start limit wanted_count for update skip locked) as locked;
    exit when rows is null;
    -- Of two callers at the ends of two parents, the second to lock a child sees what the first has recorded.
    children := array(select distinct edge.definition_id from schedule_dependencies as edge where edge.parent_id = any (definitions));
    mine := array(select def.id from job_definitions as def where def.id = any (children) order by def.id for no key update skip locked);
    busy := array(select def.id from job_definitions as def where def.id = any (children) and def.id <> all (mine));
    dependents := array(select distinct edge.run_id from run_dependencies as edge where edge.parent_id = any (ids) and not edge.succeeded);
    my_runs := array(select run.id from job_runs as run where run.id = any (dependents) order by run.id for no key update skip locked);
    busy_runs := array(select run.id from job_runs as run where run.id = any (dependents) and run.id <> all (my_runs));

    -- Runs that wait for runs.
    succeeded_ids := array(select id from unnest(ids, outcomes) as end_of (id, outcome) where outcome = 'succeeded');
    free_rows := array(
      select edge.ctid from run_dependencies as edge
       where not edge.succeeded and edge.run_id <> all (busy_runs) and edge.parent_id = any (succeeded_ids)
         for no key update skip locked);
    update run_dependencies set succeeded = true where ctid = any (free_rows);
    busy_runs := busy_runs || array(
      select edge.run_id from run_dependencies as edge where not edge.succeeded and edge.parent_id = any (succeeded_ids));
    update job_runs as run set run_at = greatest(run.scheduled_for, statement_timestamp())
     where run.id = any (my_runs) and run.run_at = '2999-12-31 00:00+00'
       and not exists (select from run_dependencies as edge where edge.run_id = run.id and not edge.succeeded);
    get diagnostics freed_now = row_count;
    freed := freed + freed_now;
    if freed_now > 0 then
      perform pg_notify('wakeboard', '');
    end if;

    -- Schedules. Ticks that are recorded, and that another transaction has locked, are left out; so are those that it is inserting, after
    -- a first try.
    free_rows := array(
      select known.ctid from schedule_ticks as known
       where known.ctid = any (array(
         select (select past.ctid from schedule_ticks as past
                  where past.definition_id = end_of.definition_id and past.scheduled_for = end_of.tick
                    and past.outcome is distinct from 'succeeded')
           from unnest(definitions, ticks) as end_of (definition_id, tick)))
         for no key update skip locked);
    select array_agg(known.definition_id), array_agg(known.scheduled_for) into held_definitions, held_ticks
      from unnest(definitions, ticks) as end_of (definition_id, tick)
     cross join lateral (
       select ctid as place, definition_id, scheduled_for from schedule_ticks as past
        where past.definition_id = end_of.definition_id and past.scheduled_for = end_of.tick
          and past.outcome is distinct from 'succeeded' limit 1) as known
     where known.place <> all (free_rows);
    again := false;
    -- First with a short lock_timeout. If that fails: again, without the ticks that another transaction is inserting.
    <<tries>>
    loop
    begin
      perform set_config('lock_timeout', case when again then '2s' else '100ms' end, true);
      insert into schedule_ticks as known (definition_id, scheduled_for, run_id, outcome)
      select distinct on (definition_id, tick) definition_id, tick, id, outcome
        from unnest(ids, definitions, ticks, outcomes) as end_of (id, definition_id, tick, outcome)
       where definition_id is not null
         and not exists (select from unnest(held_definitions, held_ticks) as held (id, at)
                          where held.id = end_of.definition_id and held.at = end_of.tick)
         and (select true from schedule_ticks as past       -- it stays as it is, and `on conflict` would wait for a lock of it
               where past.definition_id = end_of.definition_id and past.scheduled_for = end_of.tick and past.outcome = 'succeeded'
               limit 1) is null
       order by definition_id, tick, outcome = 'succeeded' desc, id desc
      on conflict on constraint a_schedule_has_each_tick_once do update set run_id = excluded.run_id, outcome = excluded.outcome
       where known.outcome is distinct from 'succeeded';

      select enqueue_ready_ticks(array_agg(edge.definition_id), array_agg(end_of.tick), at_once - made, false) into made_now
        from unnest(definitions, ticks) as end_of (definition_id, tick)
       cross join lateral (                -- offset here, and a list that is nearly always empty: one index scan for each end
         select definition_id from schedule_dependencies where parent_id = end_of.definition_id and ticks = 'Same' offset 0) as edge
       where edge.definition_id <> all (busy)
         and not exists (select from unnest(held_definitions, held_ticks) as held (id, at)
                          where held.id = edge.definition_id and held.at = end_of.tick);
      exit tries;
    exception when lock_not_available then
      if again then
        raise;
      end if;
      again := true;
      select held_definitions || array_agg(blocked.definition_id), held_ticks || array_agg(blocked.scheduled_for)
        into held_definitions, held_ticks
        from (select array_agg(definition_id) as ids, array_agg(tick) as ticks
                from (select * from unnest(definitions, ticks) as end_of (definition_id, tick) where definition_id is not null
                      union
                      select edge.definition_id, end_of.tick
                        from unnest(definitions, ticks) as end_of (definition_id, tick)
                        join schedule_dependencies as edge on edge.parent_id = end_of.definition_id and edge.ticks = 'Same'
                       where edge.definition_id = any (mine)) as all_ticks) as given
       cross join lateral blocked_ticks(given.ids, given.ticks) as blocked;
    end;
    end loop;
    perform set_config('lock_timeout', '2s', true);
    made := made + made_now;

    free_rows := array(
      select known.ctid from schedule_ticks as known
       where known.waits_for = 'ticks'
         and known.definition_id = any (array(
           select edge.definition_id from schedule_dependencies as edge
            where edge.parent_id = any (definitions) and edge.ticks = 'All' and edge.definition_id = any (mine)))
         for no key update skip locked);
    update schedule_ticks set waits_for = 'check' where ctid = any (free_rows) and waits_for = 'ticks';
    busy := busy || array(
      select distinct known.definition_id
        from schedule_ticks as known join schedule_dependencies as edge on edge.definition_id = known.definition_id
       where known.waits_for = 'ticks' and known.definition_id = any (mine)
         and edge.parent_id = any (definitions) and edge.ticks = 'All');

    left_rows := array(
      select end_of.place
        from unnest(held_definitions, held_ticks) as held (definition_id, tick)
        join unnest(rows, definitions, ticks) as end_of (place, definition_id, tick) on end_of.tick = held.tick
       where end_of.definition_id = held.definition_id
          or exists (select from schedule_dependencies as edge
                      where edge.definition_id = held.definition_id and edge.parent_id = end_of.definition_id and edge.ticks = 'Same'));
    left_schedules := array(
      select distinct edge.parent_id from schedule_dependencies as edge
       where edge.definition_id = any (busy) and edge.parent_id = any (definitions));
    left_runs := array(
      select distinct edge.parent_id from run_dependencies as edge
       where edge.run_id = any (busy_runs) and edge.parent_id = any (ids) and not edge.succeeded);
    with gone as (
      delete from ended_runs as row
       where row.ctid = any (rows) and row.ctid <> all (left_rows) and row.run_id <> all (left_runs)
         and (row.definition_id is null or row.definition_id <> all (left_schedules))
      returning definition_id
    ), noted as (
      insert into definition_changes (definition_id)
      select distinct edge.definition_id from gone join schedule_dependencies as edge on edge.parent_id = gone.definition_id
    )
    select count(*) into ended_now from gone;
    ended_count := ended_count + ended_now;
    exit when ended_count >= enqueue_dependents.count or found_count < wanted_count or again and part > 1;
    -- Rows of this part stay, because others have locked what waits for them; one run may wait for 1,000 others. The next part begins after
    -- them, or, as there may be very many of them, at a random page. A part that has to try again takes 0.2 s: at most two of these.
    start := case when part < 5 and (not again or random() < 0.5) then (select max(place) from unnest(rows) as place) else
      format('(%s,0)', floor(random() * pg_relation_size('ended_runs') / current_setting('block_size')::integer))::tid end;
  end loop;

  return query
  select ended_count, made + others.runs, others.skipped, freed,
         exists (select from schedule_ticks where waits_for = 'check')
    from create_dependent_runs(greatest(enqueue_dependents.count - made, 0)) as others;
end
$$;
