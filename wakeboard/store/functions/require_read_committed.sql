-- for: nobody (other moves call it)
-- Refuses a transaction whose statements all see one snapshot: after it has waited for a lock, the caller must see what the
-- transaction that held it has committed.

create or replace function wakeboard.require_read_committed(move text)
returns void language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp
as $$
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception using errcode = 'WB003', message = move || ' must run in READ COMMITTED';
  end if;
end
$$;
