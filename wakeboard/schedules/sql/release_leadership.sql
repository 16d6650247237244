-- for: operator
-- Ends the leadership of this term at once and notifies standbys on the channel wakeboard_leader. False: the term was over already.
-- Example:
--   select wakeboard.release_leadership('k8s:shop', 3);

create or replace function wakeboard.release_leadership(source wakeboard.source_name, term wakeboard.leader_term)
returns boolean language plpgsql security definer
set lock_timeout = '2s'
as $$
begin
  update leadership as held set expires_at = 'epoch', has_session = false
   where held.source = release_leadership.source and held.term = release_leadership.term and held.expires_at > statement_timestamp();
  if not found then
    return false;
  end if;
  perform pg_notify('wakeboard_leader', release_leadership.source);
  return true;
end
$$;
