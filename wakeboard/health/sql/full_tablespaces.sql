-- for: operator, viewer
-- The tablespaces of the schema's tables and indexes that have no space left, and what the server says. It writes 100 kB of a query's
-- rows to each, as the owner of the schema: tablespaces that the owner may not use are left out. Nothing stays there.

create or replace function wakeboard.full_tablespaces()
returns table (name text, problem text) language plpgsql volatile security definer
set work_mem = '64kB' set temp_tablespaces = ''
as $$
begin
  for name in
    select distinct spcname::text
      from pg_class
      join pg_database on datname = current_database()
      join pg_tablespace as used on used.oid = coalesce(nullif(reltablespace, 0), dattablespace)
     where relnamespace = 'wakeboard'::regnamespace and relkind in ('r', 'i')
     order by 1
  loop
    begin
      perform set_config('temp_tablespaces', quote_ident(name), true);
      perform count(*) from generate_series(1, 4000);
    exception
      when disk_full then
        problem := sqlerrm;
        return next;
      when insufficient_privilege or configuration_limit_exceeded then
        null;                            -- CREATE on the tablespace, temp_file_limit
    end;
  end loop;
end
$$;
