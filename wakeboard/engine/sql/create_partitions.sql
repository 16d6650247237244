-- for: worker, operator
-- Creates the missing partitions, with CREATE LIKE and ATTACH, which block no query: those of job_run_history by week, from this week to
-- `weeks_ahead` (0 to 53) weeks ahead, and those of job_run_logs by day, from today to the day after tomorrow. Returns how many it created.
-- Raises 55P03 after waiting a second for a lock: try again.
-- Example:
--   select wakeboard.create_partitions();

create or replace function wakeboard.create_partitions(weeks_ahead integer default 5)
returns integer language plpgsql security definer
set lock_timeout = '1s' set timezone = 'UTC'
as $$
declare
  wanted record;
  made integer := 0;
begin
  if weeks_ahead is null or weeks_ahead not between 0 and 53 then
    raise exception using errcode = '22023', message = 'weeks_ahead is 0 to 53';
  end if;
  for wanted in
    select 'job_run_history' as parent, to_char(week, '"job_run_history_"IYYY"w"IW') as part,
           week as begins, week + interval '1 week' as ends
      from generate_series(date_trunc('week', statement_timestamp()),
                           statement_timestamp() + weeks_ahead * interval '1 week', '1 week') as week
    union all
    select 'job_run_logs', to_char(day, '"job_run_logs_"YYYYMMDD'), day, day + interval '1 day'
      from generate_series(date_trunc('day', statement_timestamp()), statement_timestamp() + interval '2 days', '1 day') as day
  loop
    continue when to_regclass('wakeboard.' || wanted.part) is not null;
    execute format('lock table only wakeboard.%I in share update exclusive mode', wanted.parent);   -- one at a time
    continue when to_regclass('wakeboard.' || wanted.part) is not null;
    execute format('create table wakeboard.%I (like wakeboard.%I including defaults including constraints including storage)',
                   wanted.part, wanted.parent);
    execute format('alter table wakeboard.%I attach partition wakeboard.%I for values from (%L) to (%L)',
                   wanted.parent, wanted.part, wanted.begins, wanted.ends);
    made := made + 1;
  end loop;
  return made;
exception when lock_not_available then
  perform refuse_locked();
end
$$;
