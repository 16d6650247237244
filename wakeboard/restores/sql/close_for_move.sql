-- for: operator
-- Records that nothing is committed to this installation after now, so that another server to which it is moved reports no loss
-- (server_change). Call it last, in the only session that is left, and copy the database then: docs/moving.md. Returns the time. Raises
-- 55000 unless everything is paused, no run is executing, the database accepts no connections, no other client is connected except to
-- replicate, and no transaction is prepared.
-- Example:
--   select wakeboard.close_for_move();

create or replace function wakeboard.close_for_move()
returns timestamptz language plpgsql security definer
set lock_timeout = '2s'
as $$
declare
  here constant name := current_database();
  problem constant text := case
    when not exists (select from pauses as pause where pause.scope = 'all') then 'not everything is paused'
    when exists (select from job_runs where locked_by <> 0) then 'a run is executing'
    when (select datallowconn from pg_database where datname = here) then 'the database accepts connections'
    -- A role that may not see the kind of a session sees its user, which processes of the server itself do not have.
    when exists (select from pg_stat_activity as other where other.datname = here and other.usesysid is not null
                    and other.pid <> pg_backend_pid() and other.pid not in (select pid from pg_stat_replication))
      then 'another client is connected'
    when exists (select from pg_prepared_xacts where database = here) then 'a transaction is prepared'
    end;
begin
  if problem is not null then
    raise exception using errcode = '55000', message = format('the installation cannot be closed: %s', problem);
  end if;
  perform note_server();
  update installation set closed_at = statement_timestamp(), closed_position = (select log_position from server_here());
  return statement_timestamp();
exception when lock_not_available then
  perform refuse_locked();
end
$$;
