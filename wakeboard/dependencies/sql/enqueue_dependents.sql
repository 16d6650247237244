-- for: worker, operator
-- Creates the runs of schedules whose dependencies have ended, and lets runs start whose parents have succeeded. It consumes up to
-- `count` rows of `ended_runs`. If another transaction has locked one of the schedules or runs that wait for such a row, the row stays for
-- the next call, which does only what is left: the others that wait for it are not held up, and neither are other rows, which the call
-- consumes in its place. Of a tick, a schedule gets one run, whatever is retried, replayed or edited; its concurrencyPolicy applies, and
-- its circuit (suspend_after_dead). While a schedule is paused, its ticks wait; those whose parents end while it is suspended get no run.
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
  ids bigint[]; definitions bigint[]; ticks timestamptz[]; outcomes text[];
  children bigint[];                   -- schedules that wait for one of these ends
  mine bigint[];
  busy bigint[];                       -- those that another transaction has locked
  dependents bigint[];                 -- runs that wait for one of these ends
  my_runs bigint[];
  busy_runs bigint[];                  -- those that another transaction has locked
  wanted_count integer;
  found_count integer;
  ended_now integer;
  ended_count integer := 0;
  freed_now integer;
  freed integer := 0;
  made integer := 0;
  at_once integer;                     -- runs that `enqueue_ready_ticks` may create
begin
  perform require_read_committed('enqueue_dependents');
  -- A row frees one schedule or a few, so a tenth more than `count` is nearly always enough. Ticks that wait already, for
  -- `create_dependent_runs`, get their places first, but at most half of them.
  at_once := enqueue_dependents.count + enqueue_dependents.count / 10
    - (select count(*) from (select from schedule_ticks where waits_for = 'run' limit enqueue_dependents.count / 2) as waiting);
  loop
    wanted_count := enqueue_dependents.count - ended_count;
    select array_agg(place), array_agg(run_id), array_agg(definition_id), array_agg(scheduled_for), array_agg(outcome), count(*)
      into rows, ids, definitions, ticks, outcomes, found_count
      from (select ctid as place, run_id, definition_id, scheduled_for, outcome from ended_runs
             where ctid > start limit wanted_count for update skip locked) as locked;
    exit when rows is null;
    -- Of two callers at the ends of two parents, the second to lock a child sees what the first has recorded.
    children := array(select distinct edge.definition_id from schedule_dependencies as edge where edge.parent_id = any (definitions));
    mine := array(select def.id from job_definitions as def where def.id = any (children) order by def.id for no key update skip locked);
    perform stop_taken_schedules(mine);
    busy := array(select def.id from job_definitions as def where def.id = any (children) and def.id <> all (mine));
    dependents := array(select distinct edge.run_id from run_dependencies as edge where edge.parent_id = any (ids) and not edge.succeeded);
    my_runs := array(select run.id from job_runs as run where run.id = any (dependents) order by run.id for no key update skip locked);
    busy_runs := array(select run.id from job_runs as run where run.id = any (dependents) and run.id <> all (my_runs));

    -- Runs that wait for runs.
    update run_dependencies as edge set succeeded = true
     where not edge.succeeded and edge.run_id <> all (busy_runs)
       and edge.parent_id = any (array(select id from unnest(ids, outcomes) as end_of (id, outcome) where outcome = 'succeeded'));
    update job_runs as run set run_at = greatest(run.scheduled_for, statement_timestamp())
     where run.id = any (my_runs) and run.run_at = '2999-12-31 00:00+00'
       and not exists (select from run_dependencies as edge where edge.run_id = run.id and not edge.succeeded);
    get diagnostics freed_now = row_count;
    freed := freed + freed_now;
    if freed_now > 0 then
      perform pg_notify('wakeboard', '');
    end if;

    -- Schedules that wait for schedules.
    insert into schedule_ticks as known (definition_id, scheduled_for, run_id, outcome)
    select distinct on (definition_id, tick) definition_id, tick, id, outcome
      from unnest(ids, definitions, ticks, outcomes) as end_of (id, definition_id, tick, outcome)
     where definition_id is not null
     order by definition_id, tick, outcome = 'succeeded' desc, id desc
    on conflict on constraint a_schedule_has_each_tick_once do update set run_id = excluded.run_id, outcome = excluded.outcome
     where known.outcome is distinct from 'succeeded';
    made := made + (
      select enqueue_ready_ticks(array_agg(edge.definition_id), array_agg(end_of.tick), at_once - made, false)
        from unnest(definitions, ticks) as end_of (definition_id, tick)
       cross join lateral (            -- offset here: one index scan for each end
         select definition_id from schedule_dependencies where parent_id = end_of.definition_id and ticks = 'Same' offset 0) as edge
       where edge.definition_id = any (mine));
    update schedule_ticks as known set waits_for = 'check'
     where known.waits_for = 'ticks'
       and known.definition_id = any (array(
         select edge.definition_id from schedule_dependencies as edge
          where edge.parent_id = any (definitions) and edge.ticks = 'All' and edge.definition_id = any (mine)));

    with gone as (
      delete from ended_runs as row
       where row.ctid = any (rows)
         and row.run_id <> all (array(
           select edge.parent_id from run_dependencies as edge
            where edge.parent_id = any (ids) and not edge.succeeded and edge.run_id = any (busy_runs)))
         and (row.definition_id is null or row.definition_id <> all (array(
           select edge.parent_id from schedule_dependencies as edge
            where edge.parent_id = any (definitions) and edge.definition_id = any (busy))))
      returning definition_id
    ), noted as (
      insert into definition_changes (definition_id)
      select distinct edge.definition_id from gone join schedule_dependencies as edge on edge.parent_id = gone.definition_id
    )
    select count(*) into ended_now from gone;
    ended_count := ended_count + ended_now;
    exit when ended_count >= enqueue_dependents.count or found_count < wanted_count;
    start := (select max(place) from unnest(rows) as place);       -- those that stay are behind
  end loop;

  return query
  select ended_count, made + others.runs, others.skipped, freed,
         exists (select from schedule_ticks where waits_for = 'check')
    from create_dependent_runs(greatest(enqueue_dependents.count - made, 0)) as others;
end
$$;
