-- internal (called by enqueue, runs_inserted and sync_definitions)
-- Raises 22023 if the longest pause of a run is below its first one, which `backoff` would shorten.

create or replace function wakeboard.check_backoff(base_s integer, cap_s integer)
returns boolean language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp
as $$
begin
  if cap_s < base_s then
    raise exception using errcode = '22023', message = format(
      'backoff_cap_s is %s, below backoff_base_s %s; write a backoff_cap_s of at least %2$s', cap_s, base_s);
  end if;
  return true;
end
$$;
