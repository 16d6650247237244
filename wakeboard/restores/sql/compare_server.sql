-- internal (called by acquire_leadership and fetch_runs)
-- Makes a process that stays a witness. `seen`: the newest commit that it knew before this call; null at first. Returns what it knows now:
-- `wrote` says that this call writes, so that the log position is one that the caller knows to be committed once it has the answer.
--
-- If another server, or the same one after a restart, answers this call, the process looks where the log of the former one ended for the
-- new one. If that is before the position that it has seen, commits were lost. So they were if the database does not know the former
-- server, because a process sees a server only after it has been recorded (note_server): the database is from before that, or a former
-- primary is back. That is recorded (server_changes), the leases become void if they are not yet (void_leases), and a warning with the
-- SQLSTATE WB005 is raised, which the server logs and the client may. After a restore from a dump, positions mean nothing; recorded is
-- until when the process had used the former server. `worker`: the id of the process, if it is one; otherwise `holder`: of a leadership.

create or replace function wakeboard.compare_server(
  seen wakeboard.server_seen, wrote boolean, worker bigint, holder text)
returns wakeboard.server_seen language plpgsql volatile security definer
as $$
declare
  live_since constant timestamptz := pg_postmaster_start_time();
  live_table constant oid := 'installation'::regclass;
  present server_seen := seen;
  change server_changes;
  is_lost boolean;
  voids boolean;                       -- note_server has left the leases as they were
begin
  if wrote and (seen.started_at, seen.server_table) = (live_since, live_table) then
    perform note_server();             -- commits may wait for a standby from now on
  elsif (seen.started_at, seen.server_table) is distinct from (live_since, live_table) then
    perform note_server();
    if not exists (select from installation where server_started_at = live_since and installation.server_table = live_table) then
      return seen;                     -- its row is locked: the next call compares
    end if;
    select * into change from server_changes as made
     where made.to_started_at = live_since and made.to_table = live_table and made.acknowledged_at is null
        or made.from_started_at = seen.started_at and made.from_table = seen.server_table
     order by made.from_started_at = seen.started_at and made.from_table = seen.server_table desc, made.id desc limit 1;
    if (change.from_started_at, change.from_table) = (seen.started_at, seen.server_table) then
      is_lost := seen.log_position >= change.kept_position;    -- the commit of the call that saw it is behind it
    else
      is_lost := seen.seen_at is not null;
    end if;
    voids := is_lost and not coalesce(change.at_risk or change.lost, false);
    if voids then
      perform from installation for no key update skip locked;
      if not found then
        return seen;                   -- as above
      end if;
    end if;
    if is_lost and change.id is null then
      insert into server_changes (
        kind, at_risk, from_started_at, from_table, to_system, to_timeline, to_started_at, to_table, kept_until, kept_id)
      select 'promoted', true, seen.started_at, seen.server_table, server_system, server_timeline, here.server_started_at,
             here.server_table, least(reap_started_at, seen.seen_at), (select last_value from job_runs_id_seq)
        from installation as here
      on conflict do nothing
      returning * into change;
    end if;
    if is_lost and change.lost is distinct from true
       or change.kind <> 'restarted' and seen.seen_at > coalesce(change.seen_until, 'epoch') then
      update server_changes
         set lost = lost or coalesce(is_lost, false), seen_until = greatest(seen_until, seen.seen_at),
             seen_id = greatest(seen_id, seen.newest_id),
             seen_by = case when seen.seen_at < seen_until then seen_by
                       else coalesce((select 'worker ' || known.name from workers as known where known.worker_id = worker),
                                     (select 'worker ' || past.name from past_workers as past where past.worker_id = worker),
                                     'worker ' || worker, 'operator ' || holder) end
       where id in (select made.id from server_changes as made where made.id = change.id for no key update skip locked);
      if not found then
        return seen;                   -- as above
      end if;
      perform note_all_schedules() where is_lost and not change.lost;
    end if;
    perform void_leases() where voids;
    if is_lost then
      raise warning using errcode = 'WB005',
        message = format('the database went back in time: what was committed after %s is lost', change.kept_until),
        detail = format('This process had committed something at %s.', seen.seen_at),
        hint = '`wakeboard check --after-restore` says what may run twice.';
    end if;
    present := null;
  end if;
  present.started_at := live_since;
  present.server_table := live_table;
  if wrote then
    begin
      present.log_position := pg_current_wal_insert_lsn();
    exception when others then         -- of a managed server that does not say it
      null;
    end;
    present.seen_at := statement_timestamp();
    present.newest_id := (select last_value from job_runs_id_seq);
  end if;
  return present;
end
$$;
