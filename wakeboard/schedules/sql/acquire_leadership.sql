-- for: operator
-- Makes `holder` the leader of `source` for `lease_s` seconds if there is no leader, or renews its lease if it leads already.
-- Returns the current leader: its term, whether it is the caller (is_leader), its name and release, and the seconds until its lease
-- expires. The term grows with each new leader, by a random number (`lease_step`). A call while another operator leads writes nothing.
--
-- `client_pid`: the process number that the caller's connection shows. If it is that of this backend, no pooler is between, and the
-- leader's session takes an advisory lock. PostgreSQL releases it when the session ends, and the next call of another operator then leads
-- at once. Otherwise only the lease ends a leadership. A leader that has lost the leadership closes its connection, and with it the lock.
-- `seen`: the seen_server of the former answer, unchanged (null at first): the newest renewal that the caller knows, by which a database
-- that has gone back in time is noticed (`compare_server`).
-- `problem`: why the caller cannot list or watch JobSchedules; `wakeboard check` and the board show that of a leader.
-- Example:
--   select * from wakeboard.acquire_leadership('k8s:shop', 'operator-1', '0.1.0', 15);

create or replace function wakeboard.acquire_leadership(
  source wakeboard.source_name, holder wakeboard.process_name, release wakeboard.label, lease_s wakeboard.leader_lease_s,
  client_pid wakeboard.process_number default 0, problem wakeboard.label default '', seen text default null)
returns table (term bigint, is_leader boolean, leader text, leader_release text, expires_in_s double precision, seen_server text)
  language plpgsql security definer
set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  lock_key constant bigint := hashtextextended('wakeboard leader of ' || acquire_leadership.source, 0);
  led_term bigint;
  locked boolean;
  leads boolean;
  known server_seen;
begin
  begin
    known := acquire_leadership.seen::server_seen;
  exception when data_exception then                           -- of another release
    null;
  end;
  select held.term into led_term from leadership as held
   where held.source = acquire_leadership.source and held.holder <> acquire_leadership.holder and held.has_session
     and held.expires_at > statement_timestamp();
  if found and pg_try_advisory_lock(lock_key) then             -- its session has ended
    perform pg_advisory_unlock(lock_key);
    update leadership as held set expires_at = 'epoch', has_session = false
     where held.source = acquire_leadership.source and held.term = led_term and held.has_session;
  end if;
  insert into leadership as held (source, term, holder, release, expires_at, acquired_at, problem)
  select acquire_leadership.source, lease_step(), acquire_leadership.holder, acquire_leadership.release,
         statement_timestamp() + make_interval(secs => lease_s), statement_timestamp(), acquire_leadership.problem
   where not exists (
     select from leadership as led
      where led.source = acquire_leadership.source and led.holder <> acquire_leadership.holder and led.expires_at > statement_timestamp())
  on conflict on constraint leadership_pkey do update
     set term = case when held.holder = excluded.holder and held.expires_at > statement_timestamp() then held.term
     else held.term + lease_step() end,
         acquired_at = case when held.holder = excluded.holder and held.expires_at > statement_timestamp() then held.acquired_at
                         else excluded.acquired_at end,
         has_session = held.has_session and held.holder = excluded.holder and held.expires_at > statement_timestamp(),
         holder = excluded.holder, release = excluded.release, expires_at = excluded.expires_at,
         problem = excluded.problem
   where held.holder = excluded.holder or held.expires_at <= statement_timestamp();
  leads := found;
  if leads and client_pid = pg_backend_pid() then
    locked := pg_try_advisory_lock(lock_key);                  -- also if this session has it: it is released when the session ends
    update leadership as held set has_session = locked
     where held.source = acquire_leadership.source and held.has_session <> locked;
  end if;
  known := compare_server(known, leads, null, acquire_leadership.holder);
  return query
  select now_held.term, now_held.holder = acquire_leadership.holder, now_held.holder, now_held.release,
         extract(epoch from now_held.expires_at - statement_timestamp())::double precision, known::text
    from leadership as now_held
   where now_held.source = acquire_leadership.source;
end
$$;
