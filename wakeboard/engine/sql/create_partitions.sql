-- for: worker, operator
-- Creates the missing weekly partitions of job_run_history, from this week to `weeks_ahead` (0 to 53) weeks ahead, with CREATE LIKE and
-- ATTACH, which block no query. Returns how many it created. Raises 55P03 after waiting a second for a lock: try again.
-- Example:
--   select wakeboard.create_partitions();

create or replace function wakeboard.create_partitions(weeks_ahead integer default 5)
returns integer language plpgsql security definer
set lock_timeout = '1s' set timezone = 'UTC'
as $$
declare
  week timestamptz;
  part text;
  made integer := 0;
begin
  if weeks_ahead is null or weeks_ahead not between 0 and 53 then
    raise exception using errcode = '22023', message = 'weeks_ahead is 0 to 53';
  end if;
  for week in
    select generate_series(date_trunc('week', statement_timestamp()), statement_timestamp() + weeks_ahead * interval '1 week', '1 week')
  loop
    part := to_char(week, '"job_run_history_"IYYY"w"IW');
    continue when to_regclass('wakeboard.' || part) is not null;
    lock table only wakeboard.job_run_history in share update exclusive mode;   -- one at a time
    continue when to_regclass('wakeboard.' || part) is not null;
    execute format(
      'create table wakeboard.%I (like wakeboard.job_run_history including defaults including constraints including storage)', part);
    execute format('alter table wakeboard.job_run_history attach partition wakeboard.%I for values from (%L) to (%L)',
                   part, week, week + interval '1 week');
    made := made + 1;
  end loop;
  return made;
exception when lock_not_available then
  perform refuse_locked();
end
$$;
