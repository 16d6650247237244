-- internal (called by many functions)
-- A function calls it before it answers that something is done already, if it may have written nothing itself.
-- Makes the commit of the caller wait for a synchronous standby, although the caller has written nothing. What its answer names may be a
-- commit whose own session no longer waits: a cancelled or terminated wait makes a commit visible that a failover still loses. WAL has one
-- order, so a later commit is confirmed with all earlier ones. A revoked right to write a message ends no call.

create or replace function wakeboard.wait_for_standby() returns void language plpgsql security definer
as $$
begin
  if current_setting('synchronous_standby_names') <> '' then
    perform pg_logical_emit_message(true, 'wakeboard', '');
  end if;
exception when insufficient_privilege then
  null;
end
$$;
