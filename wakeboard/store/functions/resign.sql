-- for: operator
-- Ends the leadership of this term at once, so that another may lead; standbys that listen hear of it. False: it had ended already.

create or replace function wakeboard.resign(source text, term bigint)
returns boolean language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp
as $$
begin
  update leadership as held set held_until = 'epoch', by_session = false
   where held.source = resign.source and held.term = resign.term and held.held_until > statement_timestamp();
  if not found then
    return false;
  end if;
  perform pg_notify('wakeboard_leader', resign.source);
  return true;
end
$$;
