-- for: operator
-- The leader of this term holds leadership by its session, too: while the session lives it holds an advisory lock, and when it ends
-- a standby may take over at once. False: a pooler stands between (`client_pid` is not this backend), another session has the lock, or
-- the term is over; then only the lease counts. Once for each session: a session that has the lock must not ask again.

create or replace function wakeboard.hold_leader_session(source text, term bigint, client_pid integer)
returns boolean language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp
as $$
declare
  lock_key constant bigint := hashtextextended('wakeboard leader of ' || hold_leader_session.source, 0);
  locked constant boolean := client_pid = pg_backend_pid() and pg_try_advisory_lock(lock_key);
begin
  update leadership as held set by_session = locked
   where held.source = hold_leader_session.source and held.term = hold_leader_session.term
     and held.held_until > statement_timestamp();
  if locked and not found then
    perform pg_advisory_unlock(lock_key);
    return false;
  end if;
  return locked;
end
$$;
