-- for: operator
-- These definitions are gone from `source`: queued and failed runs of them are cancelled, running ones finish, dead ones stay.
-- Answers per definition: 'removed', or 'due' (record the ticks that `due_among` tells as skipped, then ask again; nothing done).
-- Only rows that no sync has met since `synced_before` are removed.

create or replace function wakeboard.remove_definitions(source text, ids bigint[], synced_before timestamptz default 'infinity')
returns table (id bigint, answer text) language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
#variable_conflict use_column
declare
  waiting bigint[];
begin
  return query
  with known as materialized (
    select def.id,
           case when not def.suspended and def.tick_error is null and def.next_run_at <= statement_timestamp()
                then 'due' else 'removed' end as answer
      from unnest(ids) as wanted (id) join job_definitions as def using (id)
     where def.source = remove_definitions.source and def.removed_at is null and def.seen_at < synced_before
     order by def.id
       for update of def
  ), updated as (
    update job_definitions as def
       set removed_at = statement_timestamp(), updated_at = statement_timestamp(), next_run_at = null
      from known where def.id = known.id and known.answer = 'removed'
  ), noted as (
    insert into definition_changes (definition_id) select id from known where answer = 'removed'
  )
  select id, answer from known;

  select array_agg(run.id) into waiting
    from (select run.id
            from job_runs as run join job_definitions as def on def.id = run.definition_id
           where def.id = any (ids) and def.source = remove_definitions.source and def.removed_at is not null
             and run.status in ('queued', 'failed')
           order by run.id
             for update of run) as run;
  perform finish_runs(waiting, 'cancelled', 'ScheduleRemoved') where waiting is not null;
end
$$;
