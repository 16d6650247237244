-- for: operator
-- Lets runs with limit key `key` start at most `rate_count` times (1 to 1,000,000) each `rate_period_s` seconds (1 to 2,678,400), evenly
-- spread, and at most `burst` (1 to 1,000,000) at once after a pause. So in any t seconds at most burst + t * rate_count / rate_period_s
-- attempts start, by the database's clock. Without a limit by set_limit, any number of them runs at once.
-- Null: no rate limit; the key then has the limit of set_limit, or the default of 1. A pause by a handler ends.
-- The keys of schedules (schedule:ID) cannot be set. Writes an audit row if the limit changes (see Audit).
-- Example:
--   select wakeboard.set_rate_limit('openai-api', 60, 60, 10);

create or replace function wakeboard.set_rate_limit(
  key text, rate_count integer, rate_period_s integer default 1, burst integer default 1,
  reason text default '', actor wakeboard.audit_actor default null, source wakeboard.acting_program default 'sql')
returns void language plpgsql security definer
set lock_timeout = '2s'
as $$
declare
  before job_limits;
begin
  if key is null then
    perform refuse_argument('key', null, 'the name of a limit key');
  elsif key::limit_key_name like '%:%' then
    perform refuse_value('limit_key', key);
  elsif rate_count is not null then
    if rate_count not between 1 and 1000000 then
      raise exception using errcode = '22023', message =
        format('a rate is %s runs; write a whole number from 1 to 1000000, or null for no rate limit', rate_count);
    elsif (rate_period_s between 1 and 2678400) is not true then
      raise exception using errcode = '22023', message =
        format('a rate is per %s seconds; write a whole number from 1 to 2678400 (31 days)', coalesce(rate_period_s::text, 'null'));
    elsif (burst between 1 and 1000000) is not true then
      raise exception using errcode = '22023', message =
        format('a burst is %s runs; write a whole number from 1 to 1000000', coalesce(burst::text, 'null'));
    end if;
  end if;
  select * into before from job_limits as bound where bound.key = set_rate_limit.key for no key update;
  if set_rate_limit.rate_count is null then
    update job_limits as bound
       set rate_count = null, rate_period_s = null, rate_burst = null, next_unit_at = 'epoch', paused_until = 'epoch',
           max_running = case when bound.is_explicit then bound.max_running else 1 end
     where bound.key = set_rate_limit.key and bound.rate_count is not null;
  else
    insert into job_limits as bound (key, max_running, rate_count, rate_period_s, rate_burst)
    values (set_rate_limit.key, 1000000, set_rate_limit.rate_count, set_rate_limit.rate_period_s, set_rate_limit.burst)
    on conflict on constraint job_limits_pkey do update
       set rate_count = excluded.rate_count, rate_period_s = excluded.rate_period_s, rate_burst = excluded.rate_burst,
           paused_until = 'epoch', max_running = case when bound.is_explicit then bound.max_running else excluded.max_running end,
           next_unit_at = least(bound.next_unit_at, statement_timestamp()
             + make_interval(secs => 1e0 * excluded.rate_burst * excluded.rate_period_s / excluded.rate_count));
  end if;
  if (before.rate_count, before.rate_period_s, before.rate_burst)
     is distinct from (rate_count, case when rate_count is not null then rate_period_s end, case when rate_count is not null then burst end)
  then
    insert into audit_log (actor, source, action, scope, reason, detail)
    values (coalesce(actor, session_user), source, 'set_rate_limit', set_rate_limit.key, coalesce(left(set_rate_limit.reason, 200), ''),
            jsonb_build_object(
              'before', case when before.rate_count is not null then
                jsonb_build_object('count', before.rate_count, 'period_s', before.rate_period_s, 'burst', before.rate_burst) end,
              'after', case when rate_count is not null then
                jsonb_build_object('count', rate_count, 'period_s', rate_period_s, 'burst', burst) end));
  end if;
  perform pg_notify('wakeboard', '');
exception when lock_not_available then
  perform refuse_locked();
end
$$;
