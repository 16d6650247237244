-- for: operator, worker
-- Detaches and drops the partitions of job_run_history of which every run finished more than `retention` ago. A retention that is null, or
-- shorter than the installation's (set_retention), counts as the installation's. Returns how many it dropped. Raises 55P03 after waiting
-- 200 ms for a lock, because completions wait meanwhile: try again. A partition that `roll_up` has not verified stays, unless `roll_up` has
-- verified nothing for a week. Partitions of job_run_logs of which every batch is older than the installation's retention of logs are
-- dropped, too.
-- Example:
--   select wakeboard.drop_partitions();

create or replace function wakeboard.drop_partitions(retention interval default null)
returns integer language plpgsql security definer
set lock_timeout = '200ms' set timezone = 'UTC'
as $$
declare
  part record;
  dropped integer := 0;
  kept_for interval;
  verified timestamptz;
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
    select verified_until into verified from rollup_progress;
    if part.ends > verified then
      update rollup_progress set drop_waits_since = statement_timestamp()
       where drop_waits_since is null or drop_waits_since > statement_timestamp();
      continue when exists (select from rollup_progress where drop_waits_since > statement_timestamp() - interval '1 week');
    end if;
    execute format('alter table wakeboard.job_run_history detach partition wakeboard.%I', part.name);
    execute format('drop table wakeboard.%I', part.name);
    dropped := dropped + 1;
  end loop;
  lock table only wakeboard.job_run_logs in share update exclusive mode;
  for part in
    select child.relname as name
      from pg_inherits join pg_class as child on child.oid = inhrelid cross join installation
     where inhparent = 'wakeboard.job_run_logs'::regclass and child.relname ~ '^job_run_logs_\d{8}$'
       and to_date(right(child.relname, 8), 'YYYYMMDD') + 1 <= statement_timestamp() - log_retention
     order by 1
  loop
    execute format('alter table wakeboard.job_run_logs detach partition wakeboard.%I', part.name);
    execute format('drop table wakeboard.%I', part.name);
    dropped := dropped + 1;
  end loop;
  return dropped;
exception when lock_not_available then
  perform refuse_locked();
end
$$;
