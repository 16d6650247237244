-- for: operator
-- Removes schedules of `source` that no sync has written since `synced_before`. Queued and failed runs of them are cancelled, running ones
-- finish, dead ones stay. The answer for each schedule: 'removed', or 'due' (nothing was done: record the ticks that
-- `filter_due_definitions` returns as skipped, then call again). A schedule without an answer is locked by another transaction, or one of
-- its waiting runs is, or the backfill of one: call again. One of an application is never 'due', since `remove_schedules` has recorded its
-- tick, and keeps its next_run_at: if its transaction creates it again, its ticks go on from there (edit_schedule).
-- Example:
--   select * from wakeboard.remove_definitions('file:shop', '{1}');

create or replace function wakeboard.remove_definitions(
  source wakeboard.source_name, ids wakeboard.id_array, synced_before timestamptz default 'infinity')
returns table (id bigint, answer text) language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  mine bigint[] := lock_definitions(ids);
  waiting bigint[] := array(
    select run.id from job_runs as run where run.definition_id = any (mine) and run.status in ('queued', 'failed'));
  busy constant bigint[] := lock_backfills(waiting, wait => true);
begin
  waiting := array(select id from unnest(lock_runs(waiting)) as run (id) where id <> all (busy));
  perform require_read_committed('remove_definitions') where remove_definitions.source <> 'app';        -- see unschedule
  mine := array(select def.id from unnest(mine) as def (id)
                 where not exists (select from job_runs as run
                                    where run.definition_id = def.id and run.status in ('queued', 'failed') and run.id <> all (waiting)));
  return query                               -- in a snapshot from after the locks
  with known as materialized (
    select def.id,
           case when def.source <> 'app' and not def.suspended and def.schedule_error is null
                 and def.next_run_at <= statement_timestamp() then 'due' else 'removed' end as answer
      from (select * from job_definitions where id = any (mine) offset 0) as def         -- see enqueue_due_ticks
     where def.source = remove_definitions.source and def.removed_at is null and def.last_synced_at < synced_before
  ), updated as (
    update job_definitions as def
       set removed_at = statement_timestamp(), updated_at = statement_timestamp(), success_due_at = null, success_missed_at = null,
           next_run_at = case when def.source = 'app' then def.next_run_at end, removed_by = pg_current_xact_id()
      from known where def.id = known.id and known.answer = 'removed'
  ), noted as (
    insert into definition_changes (definition_id)
    select id from known where answer = 'removed'
    union
    select edge.definition_id from known join schedule_dependencies as edge on edge.parent_id = known.id where known.answer = 'removed'
  )
  select id, answer from known;

  select array_agg(run.id) into waiting
    from job_runs as run join job_definitions as def on def.id = run.definition_id
   where run.id = any (waiting) and run.status in ('queued', 'failed')
     and def.id = any (mine) and def.source = remove_definitions.source and def.removed_at is not null;
  perform finish_runs(waiting, 'cancelled', 'ScheduleRemoved') where waiting is not null;
  mine := array(select def.id from job_definitions as def
                 where def.id = any (mine) and def.source = remove_definitions.source and def.removed_at is not null);
  delete from schedule_dependencies where definition_id = any (mine);
  delete from schedule_ticks where definition_id = any (mine) and waits_for is not null and outcome is null;
end
$$;
