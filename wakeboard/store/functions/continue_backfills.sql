-- for: worker, operator
-- Creates the next runs of the backfills that are neither paused nor finished, so that up to 1,000 runs of each are unfinished, and marks
-- those as finished whose runs have all ended. A backfill of a removed schedule ends as cancelled. A backfill that another transaction has
-- locked is left to it. Each tick becomes one run, however many processes call this and wherever they crash. Returns how many runs it has
-- created.
-- Example:
--   select wakeboard.continue_backfills();

create or replace function wakeboard.continue_backfills()
returns integer language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off set lock_timeout = '2s'
as $$
declare
  job backfills;
  made integer := 0;
begin
  for job in select * from backfills where finished_at is null order by paused_at is not null, id limit 1000 loop   -- paused ones have no work
    select * into job from backfills where id = job.id and finished_at is null for no key update skip locked;
    continue when not found;
    if not exists (select from job_definitions where id = job.definition_id and removed_at is null) then
      perform end_backfill(job.id);
    elsif job.paused_at is null then
      made := made + create_backfill_runs(job.id);
      update backfills set finished_at = statement_timestamp()
       where id = job.id and created = total and not exists (select from unfinished_backfill_runs(job.id));
    end if;
  end loop;
  return made;
end
$$;
