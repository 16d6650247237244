-- for: operator
-- Takes an advisory lock in the leader's session. PostgreSQL releases it when the session ends, and a standby may then take over at once.
-- False: the connection goes through a pooler (`client_pid` is not this backend), another session has the lock, or the term is over; then
-- a standby waits until the lease expires. Call it once in each session: the lock is counted, and released once.

create or replace function wakeboard.register_leader_session(
  source wakeboard.source_name, term wakeboard.leader_term, client_pid wakeboard.process_number)
returns boolean language plpgsql security definer
set lock_timeout = '2s'
as $$
declare
  lock_key constant bigint := hashtextextended('wakeboard leader of ' || register_leader_session.source, 0);
  locked constant boolean := client_pid = pg_backend_pid() and pg_try_advisory_lock(lock_key);
begin
  update leadership as held set has_session = locked
   where held.source = register_leader_session.source and held.term = register_leader_session.term
     and held.expires_at > statement_timestamp();
  if locked and not found then
    perform pg_advisory_unlock(lock_key);
    return false;
  end if;
  return locked;
end
$$;
