-- internal (called by acknowledge_server_changes, begin_reap, close_for_move, compare_server, lease_base and register_worker)
-- Records a change of the server (server_change), and which server holds the database now. If commits may be missing, all leases are void
-- (void_leases): what a live worker has committed since then may be lost, and it cannot know. If the row of the installation is locked,
-- the next call does all that. Restarts that lost nothing are kept for 30 days, acknowledged changes for 400.

create or replace function wakeboard.note_server()
returns void language plpgsql volatile security definer
as $$
declare
  change server_changes;
  waits constant boolean := (select commits_wait(commits_wait) from installation);
begin
  perform from installation
    where server_started_at = pg_postmaster_start_time() and server_table = 'installation'::regclass::oid and commits_wait = waits
      and server_system is not null;
  if found then
    return;
  end if;
  perform from installation for no key update skip locked;
  if not found then
    return;
  end if;
  insert into server_changes (
    noticed_at, kind, at_risk, from_system, from_timeline, from_started_at, from_table, to_system, to_timeline, to_started_at, to_table,
    kept_until, kept_position, kept_id)
  select noticed_at, kind, at_risk, from_system, from_timeline, from_started_at, from_table, to_system, to_timeline, to_started_at,
         to_table, kept_until, kept_position, kept_id
    from server_change()
  returning * into change;
  if found then
    -- A crash, too, may lose commits of effects for which no process waited.
    if change.at_risk or change.kind = 'restarted' and pg_last_wal_replay_lsn() is not null
       and current_setting('synchronous_commit') = 'off' then
      perform void_leases();
    end if;
    delete from server_changes
     where noticed_at < statement_timestamp() - interval '30 days' and not at_risk and not lost
        or acknowledged_at < statement_timestamp() - interval '400 days';
    perform note_all_schedules()
      where exists (select from server_changes where at_risk and to_started_at = pg_postmaster_start_time() and acknowledged_at is null);
  end if;
  update installation
     set server_system = here.system, server_timeline = here.timeline, server_started_at = pg_postmaster_start_time(),
         server_table = 'installation'::regclass, commits_wait = waits, closed_at = null, closed_position = null
    from server_here() as here
   where (server_system, server_timeline, server_started_at, server_table, commits_wait)
         is distinct from (here.system, here.timeline, pg_postmaster_start_time(), 'installation'::regclass::oid, waits);
end
$$;
