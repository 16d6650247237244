-- for: worker, operator, client, viewer
-- What this database is, and the clock that decides.

create or replace function wakeboard.schema_state()
returns table (schema_version integer, min_code_version text, installation uuid, functions_by text, now timestamptz)
language sql stable security definer
set search_path = pg_catalog, wakeboard, pg_temp
as $$
  select (select max(version) from migrations), min_code_version, id, functions_by, clock_timestamp() from installation
$$;
