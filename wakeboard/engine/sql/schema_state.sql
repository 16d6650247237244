-- for: worker, operator, client, viewer
-- The version of the schema, the names of its migrations in order, the oldest release that may use it, the id of the installation, the
-- release that wrote the SQL functions, and the database's clock.
-- Example:
--   select * from wakeboard.schema_state();

create or replace function wakeboard.schema_state()
returns table (
  schema_version integer, migration_names text[], min_code_version text, installation uuid, functions_by text, now timestamptz)
language sql stable security definer
set lock_timeout = '2s'
as $$
  select (select max(version) from migrations), array(select name from migrations order by version), min_code_version, id, functions_by,
    clock_timestamp() from installation
$$;
