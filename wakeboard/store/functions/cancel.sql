-- for: operator
-- Cancels runs. Answers per id: 'cancelled' (it had not started, or waited for a retry), 'requested' (it runs: its worker is
-- told at the next heartbeat; a success that comes first wins), 'refused: …' (it is dead: discard it; or finished; or unknown).

create or replace function wakeboard.cancel(ids bigint[], reason text default 'Cancelled')
returns table (id bigint, answer text) language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp
as $$
#variable_conflict use_column
declare
  waiting bigint[];
begin
  return query
  with locked as materialized (
    select run.id, run.status, run.definition_id from job_runs as run
     where run.id = any (ids) order by run.id for update of run
  ), asked as (
    update job_runs as run set cancel_requested_at = coalesce(run.cancel_requested_at, statement_timestamp())
      from locked where run.id = locked.id and locked.status = 'running'
  ), noted as (
    insert into definition_changes (definition_id)
    select distinct definition_id from locked where definition_id is not null and status = 'running'
  )
  select wanted.id,
         case when locked.status in ('queued', 'failed') then 'cancelled'
              when locked.status = 'running' then 'requested'
              when locked.status = 'dead' then 'refused: the run is dead; discard it'
              else coalesce('refused: the run has ' || case past.status when 'succeeded' then 'succeeded' else 'finished: ' || past.status::text end,
                            'refused: there is no such run') end
    from (select distinct unnest(ids)) as wanted (id)
    left join locked on locked.id = wanted.id
    left join lateral (select status from job_run_history where job_run_history.id = wanted.id limit 1) as past on locked.id is null
   order by 1;

  select array_agg(run.id) into waiting from job_runs as run where run.id = any (ids) and run.status in ('queued', 'failed');
  perform finish_runs(waiting, 'cancelled', reason) where waiting is not null;
end
$$;
