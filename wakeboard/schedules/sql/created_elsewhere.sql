-- internal (called by schedule_many)
-- After a wait for a lock has ended: the first of these names, in their order in schedule_many, whose schedule another transaction is
-- creating, if it still is; no statement sees its row. Null: none. Creates nothing.

create or replace function wakeboard.created_elsewhere(names text[])
returns text language plpgsql security definer
set enable_seqscan = off set lock_timeout = '10ms'
as $$
declare
  one record;
begin
  for one in
    select name, in_namespace, short
      from unnest(names) as name
     cross join lateral (select case when strpos(name, '/') = 0 then 'default' else split_part(name, '/', 1) end as in_namespace,
                                substr(name, strpos(name, '/') + 1) as short) as parts
     where not exists (select from job_definitions as def where def.source = 'app' and def.namespace = in_namespace and def.name = short)
     order by in_namespace collate "C", short collate "C"
  loop
    begin                                    -- next_run_at: as `schedule`, so that the trigger does not count those of the namespace
      insert into job_definitions (namespace, name, job_type, next_run_at) values (one.in_namespace, one.short, 'ping', 'infinity')
      on conflict on constraint a_schedule_is_named_once_per_source do nothing;
      raise no_data_found;                   -- takes it back
    exception
      when no_data_found or data_exception or serialization_failure then null;
      when lock_not_available then
        return one.name;
    end;
  end loop;
  return null;
end
$$;
