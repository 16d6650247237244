-- for: worker, operator, viewer
-- The change of the server that no maintenance has recorded yet, as a row of server_changes with the id 0. No row: there is none.
--
-- A server that went on with the database shows it by another system identifier or table (a restore from a dump, a major upgrade), another
-- timeline (a promotion, a restore to a point in time), or only another start. `at_risk`: commits may be missing. None is if commits waited
-- for a standby, and the standby was promoted; a restart keeps them, too, unless a process has seen a later one.
-- `kept_until`, `kept_position`: the end of what the server has replayed. After a dump, the newest sign of life in its tables.
-- Example:
--   select kind, at_risk, kept_until from wakeboard.server_change();

create or replace function wakeboard.server_change()
returns setof wakeboard.server_changes language plpgsql volatile security definer
set lock_timeout = '2s'
as $$
declare
  here record;
  known installation;
  change server_changes;
begin
  select * into known from installation;
  if pg_is_in_recovery() or known.server_started_at = pg_postmaster_start_time() and known.server_table = 'installation'::regclass::oid then
    return;
  end if;
  select * into here from server_here();
  change.id := 0;
  change.noticed_at := statement_timestamp();
  change.from_system := known.server_system;
  change.from_timeline := known.server_timeline;
  change.from_started_at := known.server_started_at;
  change.from_table := known.server_table;
  change.to_system := here.system;
  change.to_timeline := here.timeline;
  change.to_started_at := pg_postmaster_start_time();
  change.to_table := 'installation'::regclass;
  change.kind := case when known.server_system <> here.system or change.from_table <> change.to_table then 'moved'
                      when known.server_timeline <> here.timeline then 'promoted' else 'restarted' end;
  change.at_risk := change.kind = 'moved' or change.kind = 'promoted' and not (
    known.commits_wait
    and (pg_last_wal_receive_lsn() is not null                       -- it streamed, so it is no copy of an archive
         -- It began as a standby that had nothing to replay: the former primary, which has ended in order, is promoted again. After another
         -- restart the server does not say what it was: then commits may be missing.
         or pg_last_wal_replay_lsn() is not null and pg_last_xact_replay_timestamp() is null and current_setting('restore_command') = '')
    and not exists (select from pg_settings where name ~ '^recovery_target(_name|_time|_xid|_lsn)?$' and setting <> ''));
  change.kept_until := case when change.kind <> 'moved' then pg_last_xact_replay_timestamp() end;
  if change.kept_until is null then
    change.kept_until := greatest(known.reap_started_at, (select max(last_seen) from workers),
                                  (select created_at from job_runs order by id desc limit 1));
  end if;
  change.kept_position := case when change.kind <> 'moved' then coalesce(pg_last_wal_replay_lsn(), here.log_position) end;
  change.kept_id := (select last_value from job_runs_id_seq);
  change.lost := false;
  return next change;
end
$$;
