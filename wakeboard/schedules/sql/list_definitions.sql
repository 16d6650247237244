-- for: operator
-- Returns the stored schedules of a source, removed ones too, so that a sync sends only what has changed. `stalled`: a sync must send it
-- again, because its ticks could not be computed, it lacks its next tick, or an application has its name.
-- Example:
--   select * from wakeboard.list_definitions('file:shop');

create or replace function wakeboard.list_definitions(source wakeboard.source_name)
returns table (
  id bigint, namespace text, name text, uid text, generation bigint, spec_hash text, tzdata_version text,
  last_tick_at timestamptz, last_synced_at timestamptz, removed boolean, stalled boolean,
  created_at timestamptz, origin text, labels jsonb)
language sql stable security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set lock_timeout = '2s'
as $$
  select id, namespace, name, uid, generation, spec_hash, tzdata_version, last_tick_at, last_synced_at, removed_at is not null,
         schedule_error is not null or (not suspended and removed_at is null and lacks_tick(cron_fields, next_run_at))
         or (removed_at is null and (select exists (select from job_definitions where source = 'app'))
             and taken_by_application(namespace, name) is not null),
         created_at, origin, labels
    from job_definitions as def
   where def.source = list_definitions.source
   order by namespace, name
$$;
