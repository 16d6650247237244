-- internal (called by list_schedules, pause_schedules, resume_schedules and unschedule_all)
-- The schedules of applications whose names match `pattern` (namespace/name, or a name in the namespace `default`; a last * stands for any
-- rest), in the order of their names, at most `count` after the full name `after`. An index finds them. Only list_schedules takes the
-- pattern */*, those of all namespaces: nothing changes the schedules of all tenants at once by mistake. `ended`: in their place, those
-- that have removed themselves after their last ticks, and have runs that wait.

create or replace function wakeboard.application_schedules(pattern text, after text, count integer, ended boolean default false)
returns table (id bigint, full_name text) language plpgsql stable security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
as $$
#variable_conflict use_column
declare
  in_namespace constant text := case when strpos(pattern, '/') = 0 then 'default' else split_part(pattern, '/', 1) end;
  wanted constant text := substr(pattern, strpos(pattern, '/') + 1);
  is_prefix constant boolean := right(wanted, 1) = '*';
  behind constant text := substr(coalesce(after, ''), strpos(coalesce(after, ''), '/') + 1);
  begins text := case when is_prefix then left(wanted, -1) else wanted end;
begin
  if in_namespace = '*' and wanted = '*' and count is not null then
    return query
    select def.id, def.namespace || '/' || def.name
      from job_definitions as def
     where def.source = 'app' and def.removed_at is null
       and (def.namespace collate "C", def.name collate "C")
           > (split_part(coalesce(after, ''), '/', 1), split_part(coalesce(after, ''), '/', 2))
     order by def.namespace collate "C", def.name collate "C"
     limit count;
    return;
  end if;
  if pattern is null or wanted = '' or begins ~ '[^a-z0-9.-]' or in_namespace !~ '^[a-z0-9-]{1,63}$' or char_length(begins) > 63 then
    perform refuse_argument('pattern', pattern, 'namespace/name, or the beginning of it with *, such as customers/42-*');
  end if;
  return query
  select def.id, def.namespace || '/' || def.name
    from job_definitions as def
   where def.namespace collate "C" = in_namespace and def.source = 'app'
     and case when not ended then def.removed_at is null
              when def.removed_at is not null then exists (
                select from job_runs as run where run.definition_id = def.id and run.status in ('queued', 'failed') offset 0) end
     and def.name collate "C" >= greatest(begins collate "C", behind collate "C")       -- where the index begins, in any plan
     and def.name collate "C" <= begins || case when is_prefix then '~' else '' end
     and (behind = '' or def.name collate "C" > behind)
   order by def.namespace collate "C", def.name collate "C"
   limit count;
end
$$;
