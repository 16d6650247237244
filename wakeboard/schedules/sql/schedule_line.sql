-- internal (called by schedule and schedule_many)
-- What decides the ticks of a schedule, as job_definitions.schedule holds it: the cron expression, `every 90m`, or `at` a moment in UTC. A
-- part of a second is rounded up, so that nothing runs before its moment.

create or replace function wakeboard.schedule_line(cron text, every interval, at timestamptz)
returns text language plpgsql immutable security definer
as $$
declare
  seconds constant numeric := extract(epoch from every);
begin
  if num_nonnulls(cron, every, at) > 1 then
    raise exception using errcode = '22023', message =
      'cron, every and at exclude each other, since its ticks come from one; write only one of them';
  end if;
  perform refuse_argument('every', every::text, 'whole seconds, from 1 second to 366 days, such as 90 minutes')
    where seconds not between 1 and 366 * 86400 or seconds <> floor(seconds)
       or extract(year from every) <> 0 or extract(month from every) <> 0;
  perform refuse_argument('at', at::text, 'a time from 1970 to 2099') where at < 'epoch' or at >= '2100-01-01 00:00+00';
  return case
    when at is not null then to_char((at + interval '0.999999 s') at time zone 'UTC', '"at "YYYY-MM-DD"T"HH24:MI:SS"Z"')
    when every is null then cron
    when seconds % 86400 = 0 then 'every ' || trunc(seconds / 86400) || 'd'
    when seconds % 3600 = 0 then 'every ' || trunc(seconds / 3600) || 'h'
    when seconds % 60 = 0 then 'every ' || trunc(seconds / 60) || 'm'
    else 'every ' || trunc(seconds) || 's' end;
end
$$;
