-- for: operator
-- At most `max_running` runs that carry limit key `key` run at once, from now on; what runs already goes on.

create or replace function wakeboard.set_limit(key text, max_running integer)
returns void language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp
set lock_timeout = '2s'
as $$
begin
  insert into job_limits as bound (key, max_running, said) values (set_limit.key, set_limit.max_running, true)
  on conflict on constraint job_limits_pkey do update set max_running = excluded.max_running, said = true;
  perform pg_notify('wakeboard', '');
end
$$;
