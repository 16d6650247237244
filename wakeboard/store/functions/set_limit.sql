-- for: operator
-- Lets at most `max_running` (0 to 1,000,000) runs with limit key `key` run at once, from now on. Running runs are not stopped. Null: the
-- default of 1. The keys of schedules (schedule:ID) follow from their concurrencyPolicy and cannot be set.
-- Example:
--   select wakeboard.set_limit('printer', 2);

create or replace function wakeboard.set_limit(key text, max_running integer)
returns void language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp
set lock_timeout = '2s'
as $$
begin
  if key::limit_key_name like '%:%' then
    perform refuse_value('limit_key', key);
  elsif max_running not between 0 and 1000000 then
    raise exception using errcode = '22023', message = format('a limit is %s; write a whole number from 0 to 1000000', max_running);
  end if;
  insert into job_limits as bound (key, max_running, is_explicit)
  values (set_limit.key, coalesce(set_limit.max_running, 1), set_limit.max_running is not null)
  on conflict on constraint job_limits_pkey do update set max_running = excluded.max_running, is_explicit = excluded.is_explicit;
  perform pg_notify('wakeboard', '');
end
$$;
