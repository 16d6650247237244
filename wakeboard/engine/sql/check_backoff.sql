-- internal (called by enqueue, schedule_problem and sync_definitions)
-- Raises 22023 if cap_s is below base_s: `backoff` would cut the first pause to cap_s.

create or replace function wakeboard.check_backoff(base_s integer, cap_s integer)
returns void language plpgsql security definer
as $$
begin
  if cap_s < base_s then
    raise exception using errcode = '22023', message = format(
      'backoff_cap_s is %s, below backoff_base_s %s; write a backoff_cap_s of at least %2$s', cap_s, base_s);
  end if;
end
$$;
