-- internal (called by many functions)
-- Raises 55P03 with a sentence, after a wait for a lock has ended. `named`: what another transaction has locked, if that is known.

create or replace function wakeboard.refuse_locked(named text default null)
returns void language plpgsql security definer
as $$
begin
  raise exception using errcode = '55P03', message = concat(
    named || ': ', 'another transaction keeps a lock that this needs; try again');
end
$$;
