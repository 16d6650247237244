-- for: worker, operator, viewer
-- Whether a schedule has no next tick although its expression always has one, or a later one than the expression allows. `cron_fields`: the
-- compiled expression (ticks/compiled_ticks.py); null: the schedule has none. The caller excludes suspended schedules. The longest times
-- between two ticks assume that one of them is skipped because the clock jumps over it.
-- Example:
--   select wakeboard.lacks_tick(cron_fields, next_run_at) from wakeboard.job_definitions where not suspended;

create or replace function wakeboard.lacks_tick(cron_fields text, next_run_at timestamptz)
returns boolean language sql stable security definer
as $$
  select cron_fields is not null and cron_fields not like 'at %' and cron_fields not like '% until=%'
     and (next_run_at is null or cron_fields not like '% from=%' and next_run_at > statement_timestamp() + case
    when cron_fields like 'every %' then interval '367 days'
    when cron_fields like '% fffffffe 1ffe 7f - %' then interval '4 days'        -- all days, months and weekdays
    when cron_fields like '% fffffffe 1ffe % - %' then interval '16 days'        -- some weekdays
    when cron_fields like '% 1ffe 7f - %' then interval '125 days'               -- some days of the month: the 31st
    when cron_fields like '% 7f - %' then interval '9 years'                     -- some months: 29 February
    else interval '41 years' end)                                                -- 29 February on one weekday
$$;
