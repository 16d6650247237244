-- for: worker, operator
-- Skips up to `count` runs that had not started by their deadline (start_before), with the reason TooLate. Returns how many.
-- Example:
--   select wakeboard.skip_past_deadline();

create or replace function wakeboard.skip_past_deadline(count wakeboard.row_count default 1000)
returns integer language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set lock_timeout = '2s'
as $$
declare
  late bigint[];
begin
  select array_agg(id) into late
    from (select id from job_runs
           where start_before < statement_timestamp() and started_at = 'epoch' and locked_by = 0 and dead_at is null
           order by start_before limit skip_past_deadline.count for update skip locked) as locked;
  perform finish_runs(late, 'skipped', 'TooLate') where late is not null;
  return coalesce(cardinality(late), 0);
end
$$;
