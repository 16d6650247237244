-- for: worker, operator
-- Creates the next runs of the backfills that are neither paused nor finished, whenever 250 runs have ended, so that up to 1,000 runs of
-- each are unfinished, and marks those as finished whose runs have all ended. A backfill of a removed schedule ends as cancelled. A
-- backfill that another transaction has locked, or of which it has locked a tick or the limit, is left to a later call: the first of them
-- delays this call by 200 ms, each other one by a millisecond. Each tick becomes one run, however many processes call this and wherever
-- they crash. Returns how many runs it has created, at most 20,000.
-- Example:
--   select wakeboard.continue_backfills();

create or replace function wakeboard.continue_backfills()
returns integer language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
set lock_timeout = '200ms'
as $$
declare
  mine bigint[];
  job record;
  batch integer;
  batches integer := 0;
  made integer := 0;
begin
  mine := array(select id from backfills where finished_at is null                             -- paused ones have no work
                 order by paused_at is not null, id limit 1000 for no key update skip locked);
  if mine = '{}' then
    return 0;
  end if;
  for job in                               -- in a snapshot from after the locks; all are counted at once, because many may share a schedule
    select known.*, coalesce(live.count, 0) as unfinished
      from backfills as known
      left join (
        select item.backfill_id, count(*)
          from job_runs as run cross join lateral (select backfill_id from backfill_ticks where run_id = run.id limit 1) as item
         where run.definition_id = any (array(select distinct definition_id from backfills where id = any (mine)))
           and run.trigger = 'backfill' and run.status in ('queued', 'running', 'failed')
         group by 1) as live on live.backfill_id = known.id
     where known.id = any (mine)
     order by known.id
  loop
    begin
      if not exists (select from job_definitions where id = job.definition_id and removed_at is null) then
        perform end_backfill(job.id);
      elsif job.paused_at is null and job.created = job.total and job.unfinished = 0 then
        update backfills set finished_at = statement_timestamp() where id = job.id;
      elsif job.paused_at is null and job.created < job.total and job.unfinished <= 750 and batches < 20 then    -- 750: also in next_due
        batch := create_backfill_runs(job.id);
        made := made + batch;
        batches := batches + (batch > 0)::integer;
      end if;
    exception when lock_not_available then
      perform set_config('lock_timeout', '1ms', true);
    end;
  end loop;
  return made;
end
$$;
