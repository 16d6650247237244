-- internal (called by many functions)
-- Raises 55P03 with a sentence, after a wait for a lock has ended.

create or replace function wakeboard.refuse_locked()
returns void language plpgsql security definer
as $$
begin
  raise exception using errcode = '55P03', message = 'another transaction keeps a lock that this needs; try again';
end
$$;
