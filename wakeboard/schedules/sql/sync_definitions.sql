-- for: operator
-- Stores the declared schedules of `source`. `rows`: an array of objects with namespace, name, uid, generation, spec_hash, the columns of
-- the spec, after (an array of objects with schedule, outcome and ticks), cron_fields, next_run_at (the first tick after max(now,
-- last_tick_at)), tzdata_version, origin and labels. The answer for each row: 'created', 'updated', 'unchanged', 'stale' (same uid, older
-- generation: nothing was done), 'due' (ticks of the old spec are due, nothing was done: handle those that `filter_due_definitions`
-- returns, then call again; those that a pause holds stay due), or why an application has the name (taken_by_application: nothing was
-- done, and the id is null). A row has no answer if another transaction has locked what it must change: the schedule, runs that need
-- other limit keys, or a new parent in `after` and its runs. Then call again. A removed schedule that is declared again keeps its row.
-- A schedule whose ticks could not be computed (schedule_error), declared again unchanged, continues where it stopped. One that lacks
-- its next tick (lacks_tick), declared again unchanged, continues at `next_run_at`. A repeat changes nothing.

create or replace function wakeboard.sync_definitions(source wakeboard.source_name, rows wakeboard.definition_rows)
returns table (id bigint, namespace text, name text, answer text) language plpgsql security definer
set jit = off set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  parents bigint[] := '{}';            -- to be marked: these schedules run after them, and no other did
  mine bigint[];
  locked_names text[];                 -- of parents that cannot be marked now: namespace/name
begin
  if jsonb_path_exists(rows, '$[*].after[*]') then
    parents := array(                  -- by a subquery, as in store_dependencies
      select id from (
        select (select def.id from job_definitions as def
                 where def.source = sync_definitions.source and def.namespace = wanted.namespace and def.name = parent.name #>> '{}'
                   and def.has_dependents is not true) as id
          from jsonb_to_recordset(rows) as wanted (namespace text, after jsonb)
         cross join lateral jsonb_path_query(wanted.after, '$[*].schedule') as parent (name)) as named
       where id is not null);
  end if;
  mine := lock_definitions(parents || array(
    select def.id
      from jsonb_to_recordset(rows) as wanted (namespace text, name text)
      join job_definitions as def
        on def.source = sync_definitions.source and def.namespace = wanted.namespace and def.name = wanted.name));
  perform require_read_committed('sync_definitions');
  perform check_backoff(wanted.backoff_base_s, wanted.backoff_cap_s), refuse_value('next_run_at', wanted.next_run_at::text)
     from jsonb_to_recordset(rows) as wanted (next_run_at timestamptz, backoff_base_s integer, backoff_cap_s integer)
    where wanted.next_run_at not between 'epoch' and statement_timestamp() + interval '100 years'
       or wanted.backoff_cap_s < wanted.backoff_base_s;
  locked_names := locked_parents(parents, mine);
  perform stop_taken_schedules(mine);
  return query                               -- in a snapshot from after the locks
  with wanted as (
    select wanted.* from jsonb_to_recordset(rows) as wanted (
      namespace text, name text, uid text, generation bigint, spec_hash text, job_type text, payload jsonb, schedule text,
      cron_fields text, next_run_at timestamptz, tzdata_version text, origin text, labels jsonb, after jsonb,
      -- columns: {column} {column_type}
      time_zone text, queue text, priority integer, limit_key text, concurrency_policy text, catch_up text, catch_up_limit integer,
      starting_deadline_s integer, jitter_s integer, dst_gap text, dst_overlap text, suspended boolean, suspend_after_dead integer,
      max_attempts integer, timeout_s integer, backoff_strategy backoff_strategy, backoff_base_s integer, backoff_cap_s integer,
      starts_at timestamptz, ends_at timestamptz, expect_success_within_s integer, alert_after_missed integer
      -- end
    )
     where taken_by_application(wanted.namespace, wanted.name) is null
       and (locked_names = '{}' or not exists (select from jsonb_path_query(wanted.after, '$[*].schedule') as parent (name)
                        where wanted.namespace || '/' || (parent.name #>> '{}') = any (locked_names)))
  ), known as materialized (
    select def.id, def.namespace, def.name,
           case
             when def.removed_at is null and def.uid = wanted.uid and def.generation > wanted.generation then 'stale'
             when def.removed_at is null and def.uid = wanted.uid and def.generation = wanted.generation
                  and def.spec_hash = wanted.spec_hash and def.tzdata_version = wanted.tzdata_version
                  and def.origin = coalesce(wanted.origin, '') and def.labels = coalesce(wanted.labels, '{}')
                  then case when def.schedule_error is null
                                 and (wanted.next_run_at is null or not lacks_tick(def.cron_fields, def.next_run_at)
                                      or def.next_run_at <= wanted.next_run_at)
                            then 'unchanged' else 'updated' end
             when def.removed_at is null and not def.suspended and def.schedule_error is null
                  and def.next_run_at <= statement_timestamp()
                  and (wanted.suspended or not exists (
                         select from pauses where scope in ('all', 'queue:' || def.queue, 'schedule:' || def.id))) then 'due'
             else 'updated' end as answer,
           (def.concurrency_policy <> 'Allow', def.limit_key) is distinct from (wanted.concurrency_policy <> 'Allow', wanted.limit_key)
             as other_keys,
           wanted.concurrency_policy = 'Allow' as all_at_once, wanted.limit_key
      from wanted
      join job_definitions as def
        on def.source = sync_definitions.source and def.namespace = wanted.namespace and def.name = wanted.name
     where def.id = any (mine)
  ), ready as materialized (           -- existing runs get the new keys too: a claim does not read definitions
    select id, namespace, name, answer
      from known
     where case when answer <> 'updated' or not other_keys then true
                when all_at_once then update_limit_keys(id, limit_key, null)
                else update_limit_keys(id, 'schedule:' || id, limit_key) end
  ), updated as (
    update job_definitions as def
       set uid = wanted.uid, generation = wanted.generation, spec_hash = wanted.spec_hash, job_type = wanted.job_type,
           payload = wanted.payload, schedule = wanted.schedule, cron_fields = wanted.cron_fields,
           next_run_at = case when def.schedule_error is not null and def.spec_hash = wanted.spec_hash and def.removed_at is null
                              then coalesce(def.next_run_at, wanted.next_run_at) else wanted.next_run_at end,
           tzdata_version = wanted.tzdata_version, schedule_error = null,
           origin = coalesce(wanted.origin, ''), labels = coalesce(wanted.labels, '{}'),
           dead_counted_from = case when wanted.suspend_after_dead is not null
                                         and (def.suspend_after_dead is null or def.removed_at is not null)
                                    then statement_timestamp() else def.dead_counted_from end,
           circuit_opened_at = case when keeps.circuit then def.circuit_opened_at end,
           circuit_probe_at = case when keeps.circuit then def.circuit_probe_at end,
           circuit_probe_id = case when keeps.circuit then def.circuit_probe_id end,
           circuit_probes = case when keeps.circuit then def.circuit_probes end,
           updated_at = statement_timestamp(), last_synced_at = statement_timestamp(), removed_at = null,
           -- columns: {column} = wanted.{column}
           time_zone = wanted.time_zone, queue = wanted.queue, priority = wanted.priority, limit_key = wanted.limit_key,
           concurrency_policy = wanted.concurrency_policy, catch_up = wanted.catch_up, catch_up_limit = wanted.catch_up_limit,
           starting_deadline_s = wanted.starting_deadline_s, jitter_s = wanted.jitter_s, dst_gap = wanted.dst_gap,
           dst_overlap = wanted.dst_overlap, suspended = wanted.suspended, suspend_after_dead = wanted.suspend_after_dead,
           max_attempts = wanted.max_attempts, timeout_s = wanted.timeout_s, backoff_strategy = wanted.backoff_strategy,
           backoff_base_s = wanted.backoff_base_s, backoff_cap_s = wanted.backoff_cap_s, starts_at = wanted.starts_at,
           ends_at = wanted.ends_at, expect_success_within_s = wanted.expect_success_within_s,
           alert_after_missed = wanted.alert_after_missed
           -- end
      from wanted join ready using (namespace, name)
      join job_definitions as former on former.id = ready.id
     cross join lateral (values (wanted.suspend_after_dead is not null and former.removed_at is null)) as keeps (circuit)
     where def.id = ready.id and ready.answer = 'updated'
  ), created as (
    insert into job_definitions (
      source, namespace, name, uid, generation, spec_hash, job_type, payload, schedule, cron_fields, next_run_at, tzdata_version, origin,
      labels,
      -- columns: {column}
      time_zone, queue, priority, limit_key, concurrency_policy, catch_up, catch_up_limit, starting_deadline_s, jitter_s, dst_gap,
      dst_overlap, suspended, suspend_after_dead, max_attempts, timeout_s, backoff_strategy, backoff_base_s, backoff_cap_s, starts_at,
      ends_at, expect_success_within_s, alert_after_missed
      -- end
    )
    select sync_definitions.source, namespace, name, uid, generation, spec_hash, job_type, payload, schedule, cron_fields, next_run_at,
           tzdata_version, coalesce(origin, ''), coalesce(labels, '{}'),
           -- columns: {column}
           time_zone, queue, priority, limit_key, concurrency_policy, catch_up, catch_up_limit, starting_deadline_s, jitter_s, dst_gap,
           dst_overlap, suspended, suspend_after_dead, max_attempts, timeout_s, backoff_strategy, backoff_base_s, backoff_cap_s, starts_at,
           ends_at, expect_success_within_s, alert_after_missed
           -- end
      from wanted
     where not exists (select from known where known.namespace = wanted.namespace and known.name = wanted.name)
     order by namespace, name
    on conflict on constraint a_schedule_is_named_once_per_source do nothing
    returning id, namespace, name
  ), noted as (
    insert into definition_changes (definition_id)
    select id from ready where answer = 'updated' union all select id from created
  )
  select id, namespace, name, answer from ready
  union all
  select id, namespace, name, 'created' from created
  union all
  select null, wanted.namespace, wanted.name, taken.why
    from jsonb_to_recordset(rows) as wanted (namespace text, name text)
   cross join lateral (select taken_by_application(wanted.namespace, wanted.name)) as taken (why)
   where taken.why is not null;
  perform store_dependencies(source, rows);
exception when not_null_violation or data_exception then
  if sqlstate = '22023' then
    raise;                                   -- a sentence of ours
  end if;
  raise exception using errcode = '22023', message = 'rows holds a schedule that cannot be stored: ' || sqlerrm;
end
$$;
