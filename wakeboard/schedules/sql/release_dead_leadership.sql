-- for: operator
-- Ends the leadership of a leader whose registered session has ended, so that a standby need not wait until the lease expires. False: no
-- leader has registered a session (register_leader_session), or the session is open. Writes only if it ends a leadership.
-- Example:
--   select wakeboard.release_dead_leadership('k8s:shop');

create or replace function wakeboard.release_dead_leadership(source wakeboard.source_name)
returns boolean language plpgsql security definer
set lock_timeout = '2s'
as $$
declare
  lock_key constant bigint := hashtextextended('wakeboard leader of ' || release_dead_leadership.source, 0);
  led_term bigint;
begin
  select held.term into led_term from leadership as held
   where held.source = release_dead_leadership.source and held.has_session and held.expires_at > statement_timestamp();
  if not found or not pg_try_advisory_lock(lock_key) then
    return false;
  end if;
  perform pg_advisory_unlock(lock_key);
  update leadership as held set expires_at = 'epoch', has_session = false
   where held.source = release_dead_leadership.source and held.term = led_term and held.has_session;
  return found;
end
$$;
