-- for: operator
-- Requests the removal of `count` schedules at once; `names_hash` identifies the list. True: this list was confirmed (confirm_removal)
-- within the last hour; the confirmation is used up. False: the request is stored until it is confirmed. A count of 0 deletes the request.

create or replace function wakeboard.request_removal(
  source wakeboard.source_name, names_hash wakeboard.list_hash, count wakeboard.row_count)
returns boolean language plpgsql security definer
set lock_timeout = '2s'
as $$
begin
  delete from pending_removals as hold
   where hold.source = request_removal.source and hold.names_hash = request_removal.names_hash
     and hold.confirmed_at > statement_timestamp() - interval '1 hour';
  if found then
    return true;
  end if;
  if request_removal.count = 0 then
    delete from pending_removals as hold where hold.source = request_removal.source;
    return false;
  end if;
  insert into pending_removals as hold (source, names_hash, count)
  values (request_removal.source, request_removal.names_hash, request_removal.count)
  on conflict on constraint pending_removals_pkey do update
     set names_hash = excluded.names_hash, count = excluded.count, confirmed_at = null,
         requested_at = case when hold.names_hash = excluded.names_hash then hold.requested_at else statement_timestamp() end;
  return false;
exception when lock_not_available then
  perform refuse_locked();
end
$$;
