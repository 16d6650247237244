-- for: operator, worker
-- Drops the partitions of job_run_history whose every row finished more than `retention` ago, and at least as long as the installation
-- keeps history (set_retention): DETACH and DROP. Answers with how many. Gives up after 200 ms of waiting for a
-- lock, because completions wait meanwhile: try again.

create or replace function wakeboard.drop_partitions(retention interval default '30 days')
returns integer language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp
set lock_timeout = '200ms' set timezone = 'UTC'
as $$
declare
  part record;
  dropped integer := 0;
  kept_for interval;
begin
  kept_for := (select longer_retention(greatest(min_history_retention, min_key_retention), retention) from installation);
  lock table only wakeboard.job_run_history in share update exclusive mode;   -- one at a time
  for part in
    select child.relname as name, to_date(substring(child.relname from '\d{4}w\d{2}'), 'IYYY"w"IW') + 7 as ends
      from pg_inherits join pg_class as child on child.oid = inhrelid
     where inhparent = 'wakeboard.job_run_history'::regclass and child.relname ~ '^job_run_history_\d{4}w\d{2}$'
     order by 1
  loop
    continue when part.ends > statement_timestamp() - kept_for;
    execute format('alter table wakeboard.job_run_history detach partition wakeboard.%I', part.name);
    execute format('drop table wakeboard.%I', part.name);
    dropped := dropped + 1;
  end loop;
  return dropped;
end
$$;
