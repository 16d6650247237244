-- internal (called by close_for_move, note_server and server_change)
-- The system identifier, the timeline and the log position of this server; null what it does not say. Some managed servers refuse these
-- functions.

create or replace function wakeboard.server_here(out system bigint, out timeline integer, out log_position pg_lsn)
language plpgsql volatile security definer
as $$
begin
  begin
    system := (select system_identifier from pg_control_system());
  exception when others then
    null;
  end;
  log_position := pg_current_wal_insert_lsn();
  timeline := ('x' || left(pg_walfile_name(log_position), 8))::bit(32)::integer;
exception when others then
  null;
end
$$;
