-- for: operator
-- Makes `holder` the leader of `source` for `lease_s` seconds if there is no leader, or renews its lease if it leads already.
-- Returns the current leader: its term, whether it is the caller (is_leader), its name and release, and the seconds until its lease
-- expires. The term grows with each new leader, by a random number (`lease_step`). A call while another operator leads writes nothing.
-- Example:
--   select * from wakeboard.acquire_leadership('k8s:shop', 'operator-1', '0.1.0', 15);

create or replace function wakeboard.acquire_leadership(
  source wakeboard.source_name, holder wakeboard.process_name, release wakeboard.label, lease_s wakeboard.leader_lease_s)
returns table (term bigint, is_leader boolean, leader text, leader_release text, expires_in_s double precision) language plpgsql security definer
set lock_timeout = '2s'
as $$
#variable_conflict use_column
begin
  insert into leadership as held (source, term, holder, release, expires_at, acquired_at)
  select acquire_leadership.source, lease_step(), acquire_leadership.holder, acquire_leadership.release,
         statement_timestamp() + make_interval(secs => lease_s), statement_timestamp()
   where not exists (
     select from leadership as led
      where led.source = acquire_leadership.source and led.holder <> acquire_leadership.holder and led.expires_at > statement_timestamp())
  on conflict on constraint leadership_pkey do update
     set term = case when held.holder = excluded.holder and held.expires_at > statement_timestamp() then held.term else held.term + lease_step() end,
         acquired_at = case when held.holder = excluded.holder and held.expires_at > statement_timestamp() then held.acquired_at
                         else excluded.acquired_at end,
         has_session = held.has_session and held.holder = excluded.holder and held.expires_at > statement_timestamp(),
         holder = excluded.holder, release = excluded.release, expires_at = excluded.expires_at
   where held.holder = excluded.holder or held.expires_at <= statement_timestamp();
  return query
  select now_held.term, now_held.holder = acquire_leadership.holder, now_held.holder, now_held.release,
         extract(epoch from now_held.expires_at - statement_timestamp())::double precision
    from leadership as now_held
   where now_held.source = acquire_leadership.source;
end
$$;
