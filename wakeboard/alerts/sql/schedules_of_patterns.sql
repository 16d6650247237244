-- internal (called by no_success_for)
-- The schedules among which are those that these patterns of LIKE leave (null: all; schedule_pattern: namespace/name): at most `most` that
-- are declared, and as many of applications, removed ones too. Indexes find the namespaces (10,000 at most) and the beginning of the name.
-- If the pattern has neither, or leaves too many, they find the queues and job types; so an id may come twice. No name has a slash, and
-- none goes on with ~.

create or replace function wakeboard.schedules_of_patterns(
  queue_pattern text, job_type_pattern text, schedule_pattern text, most integer)
returns setof bigint language plpgsql stable security definer
set enable_seqscan = off set enable_bitmapscan = off set jit = off set plan_cache_mode = force_custom_plan
as $$
declare
  a_scan constant integer := 10000;
  of_namespace constant text := coalesce((regexp_match(schedule_pattern, '^[^/%\\_]+'))[1], '');
  name_pattern constant text := (regexp_match(schedule_pattern, '/([^/]*)$'))[1];
  of_name constant text := coalesce((regexp_match(name_pattern, '^[^%\\_]+'))[1], '');
  last_namespace constant text := of_namespace || case when starts_with(schedule_pattern, of_namespace || '/') then '' else '~' end;
  last_name constant text := of_name || case when of_name = name_pattern then '' else '~' end;
  has_kinds constant boolean := num_nonnulls(queue_pattern, job_type_pattern) > 0;
  of_names integer;
begin
  return query
  (select def.id from job_definitions as def where def.source < 'app' limit most)
  union all
  (select def.id from job_definitions as def where def.source > 'app' limit most);
  if of_namespace || of_name <> '' or not has_kinds then
    return query
    with recursive space (name) as (
      (select def.namespace from job_definitions as def
        where def.namespace collate "C" between of_namespace and last_namespace order by def.namespace collate "C" limit 1)
      union all
      select (select def.namespace from job_definitions as def
               where def.namespace collate "C" > space.name and def.namespace collate "C" <= last_namespace
               order by def.namespace collate "C" limit 1)
        from space where space.name is not null
    )
    select def.id
      from (select space.name from space where space.name is not null limit a_scan) as space
     cross join lateral (
       select of_space.id, of_space.source from job_definitions as of_space
        where of_space.namespace collate "C" = space.name and of_space.name collate "C" between of_name and last_name
        order by of_space.name collate "C" limit most) as def
     where def.source = 'app'
     limit most;
    get diagnostics of_names = row_count;
  end if;
  if not has_kinds or of_names < most then
    return;
  end if;
  return query
  with recursive kind (queue, job_type) as (
    (select def.queue::text, def.job_type::text from job_definitions as def
      where def.removed_at is null order by def.queue, def.job_type limit 1)
    union all
    select def.queue, def.job_type
      from kind cross join lateral (
        select behind.queue::text, behind.job_type::text from job_definitions as behind
         where behind.removed_at is null and (behind.queue, behind.job_type) > (kind.queue, kind.job_type)
         order by behind.queue, behind.job_type limit 1) as def
  )
  select def.id
    from (select kind.queue, kind.job_type from kind limit a_scan) as kind
   cross join lateral (
     select of_kind.id, of_kind.source from job_definitions as of_kind
      where of_kind.removed_at is null and of_kind.queue = kind.queue and of_kind.job_type = kind.job_type limit most) as def
   where def.source = 'app' and coalesce(kind.queue like queue_pattern, true) and coalesce(kind.job_type like job_type_pattern, true)
   limit most;
end
$$;
