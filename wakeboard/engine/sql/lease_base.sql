-- internal (called by many functions)
-- The epoch from which on leases are valid. Those with a lower one were granted before the database went back in time, or may have been:
-- what their attempts have committed since then is lost, so that they may not end as if it were there. `reap` takes them back.
-- Another server than the one recorded is recorded first, before it answers any worker (note_server). Raises 55P03 if that needs a row
-- that another transaction has locked.

create or replace function wakeboard.lease_base()
returns bigint language plpgsql volatile security definer
as $$
declare
  base bigint := (select lease_base from installation
                   where server_started_at = pg_postmaster_start_time() and server_table = 'installation'::regclass::oid);
begin
  if base is null then
    perform note_server();
    base := (select lease_base from installation
              where server_started_at = pg_postmaster_start_time() and server_table = 'installation'::regclass::oid);
    if base is null then
      perform refuse_locked();
    end if;
  end if;
  return base;
end
$$;
