-- for: worker, operator, viewer
-- The change of the server that no maintenance has recorded yet, as a row of server_changes with the id 0. No row: there is none.
--
-- A server that went on with the database shows it by another system identifier or table (a restore from a dump, a major upgrade), another
-- timeline (a promotion, a restore to a point in time), or only another start. `at_risk`: commits may be missing. None is if commits waited
-- for a standby, and the standby was promoted; a restart keeps them, too, unless a process has seen a later one.
-- `kept_until`, `kept_position`: the end of what the server has replayed. After a dump, the newest sign of life in the rows that it loaded:
-- their xmin is older than that of the triggers, which a dump creates after all rows. `kept_id`: the highest id of a run that cannot come
-- again. Both leave out what was committed on this server before anything recorded the change. A move after which nothing can be missing is
-- not at risk: the copy says that the installation was closed (close_for_move), is still paused, and shows no later sign of life.
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
  loaded integer;                      -- rows of at least this age came with the dump
  newest_kept bigint;
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
  change.kept_until := coalesce(case when change.kind <> 'moved' then pg_last_xact_replay_timestamp() end,
                                greatest(known.created_at, known.reap_started_at, (select max(last_seen) from workers)));
  change.kept_position := case when change.kind <> 'moved' then coalesce(pg_last_wal_replay_lsn(), here.log_position) end;
  if change.kind <> 'moved' then
    newest_kept := (select id from job_runs where created_at <= change.kept_until order by id desc limit 1);
  else
    loaded := (select max(age(xmin)) from pg_trigger where tgrelid = 'job_runs'::regclass and not tgisinternal);
    if loaded <= (select age(xmin) from installation) then
      select max(run.id), greatest(change.kept_until, max(greatest(run.created_at, run.started_at, run.failed_at)))
        into newest_kept, change.kept_until from job_runs as run where age(run.xmin) >= loaded;
      change.kept_until := greatest(change.kept_until, (
        select max(finished_at) from job_run_history as ended where finished_at > change.kept_until and age(ended.xmin) >= loaded));
    else                               -- the rows came into a schema that was there: they look like those of this server
      newest_kept := (select max(id) from job_runs);
    end if;
  end if;
  -- A sequence goes on after its last value, of which a copy may have logged 32 in advance.
  change.kept_id := coalesce((select min(id) - 1 from job_runs where id > coalesce(newest_kept, 0)),
                             (select last_value from job_runs_id_seq));
  if change.kind = 'moved' and known.closed_at >= change.kept_until
     and exists (select from pauses as pause where pause.scope = 'all' and pause.paused_at <= known.closed_at) then
    change.at_risk := false;
    change.kept_until := known.closed_at;
    change.kept_position := known.closed_position;                   -- of the former server, as witnesses know it
  end if;
  change.lost := false;
  return next change;
end
$$;
