-- for: operator
-- Queues dead or failed runs again, due now, with attempts and crashes at 0 and the same uuid: effects and steps that are done
-- stay done. Answers per id: 'queued' or 'refused: …'.

create or replace function wakeboard.retry(ids bigint[])
returns table (id bigint, answer text) language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp
as $$
#variable_conflict use_column
begin
  return query
  with locked as materialized (
    select run.id, run.status, run.definition_id from job_runs as run
     where run.id = any (ids) order by run.id for update of run
  ), again as (
    update job_runs as run
       set status = 'queued', attempts = 0, crash_count = 0, release_count = 0, run_at = statement_timestamp(), dead_at = null,
           cancel_requested_at = null
      from locked where run.id = locked.id and locked.status in ('dead', 'failed')
  ), noted as (
    insert into definition_changes (definition_id)
    select distinct definition_id from locked where definition_id is not null and status in ('dead', 'failed')
  )
  select wanted.id,
         case when locked.status in ('dead', 'failed') then 'queued'
              when locked.status is not null then 'refused: the run is ' || locked.status::text
              else coalesce('refused: the run is finished (' || past.status::text || '); replay makes a new run from it',
                            'refused: there is no such run') end
    from (select distinct unnest(ids)) as wanted (id)
    left join locked on locked.id = wanted.id
    left join lateral (select status from job_run_history where job_run_history.id = wanted.id limit 1) as past on locked.id is null
   order by 1;
  perform pg_notify('wakeboard', '');
end
$$;
