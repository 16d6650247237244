-- for: scheduler
-- Returns schedules of applications whose names match `pattern` (see unschedule_all; without * it is one schedule; */* are those of all
-- namespaces), in the order of their names: at most `count` after the name `after`, the last one of the page before. `definition`: the
-- arguments of `schedule` that differ from their defaults, as `schedule_many` reads them. `paused`: by pause_schedules, or with its queue
-- or everything. `error`: why its ticks cannot be computed. `next_run_at` is null until the scheduler has seen the schedule, and if there
-- is no next tick.
-- Example:
--   select * from wakeboard.list_schedules('customers/*', after => 'customers/42-report');

create or replace function wakeboard.list_schedules(pattern text, after text default '', count wakeboard.row_count default 100)
returns table (
  id bigint, name text, definition jsonb, generation bigint, paused boolean, next_run_at timestamptz, last_tick_at timestamptz,
  error text)
language plpgsql stable security definer
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  defaults constant jsonb := jsonb_build_object(
    'payload', '{}'::jsonb,
    -- defaults: '{name}', {default}
    'time_zone', 'Etc/UTC', 'queue', 'default', 'priority', 3, 'concurrency_policy', 'Allow', 'catch_up', 'Latest', 'catch_up_limit', 100,
    'jitter_s', 0, 'dst_gap', 'RunAfter', 'dst_overlap', 'First', 'suspended', false, 'max_attempts', 5, 'timeout_s', 600,
    'backoff', 'exponential', 'backoff_base_s', 10, 'backoff_cap_s', 3600
    -- end
  );
begin
  return query
  select def.id, shown.full_name, (
           select coalesce(jsonb_object_agg(given.key, given.value), '{}')
                  || jsonb_build_object('name', shown.full_name, 'job_type', def.job_type)
             from jsonb_each(jsonb_build_object(
                    'payload', def.payload, 'every', substring(def.schedule from '^every (.*)'),
                    'at', substring(def.schedule from '^at (.*)'),
                    'cron', case when def.schedule !~ '^(every|at) ' then def.schedule end,
                    -- columns: '{name}', {shown}
                    'time_zone', def.time_zone, 'queue', def.queue, 'priority', def.priority, 'limit_key', def.limit_key,
                    'concurrency_policy', def.concurrency_policy, 'catch_up', def.catch_up, 'catch_up_limit', def.catch_up_limit,
                    'starting_deadline_s', def.starting_deadline_s, 'jitter_s', def.jitter_s, 'dst_gap', def.dst_gap,
                    'dst_overlap', def.dst_overlap, 'suspended', def.suspended, 'suspend_after_dead', def.suspend_after_dead,
                    'max_attempts', def.max_attempts, 'timeout_s', def.timeout_s, 'backoff', def.backoff_strategy,
                    'backoff_base_s', def.backoff_base_s, 'backoff_cap_s', def.backoff_cap_s,
                    'starts_at', to_char(def.starts_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
                    'ends_at', to_char(def.ends_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
                    'expect_success_within_s', def.expect_success_within_s, 'alert_after_missed', def.alert_after_missed
                    -- end
                  )) as given
            where given.value <> 'null' and given.value <> coalesce(defaults -> given.key, 'null')),
         def.generation,
         exists (select from pauses where scope in ('all', 'queue:' || def.queue, 'schedule:' || def.id)),
         case when def.cron_fields is not null then def.next_run_at end, nullif(def.last_tick_at, 'epoch'), def.schedule_error
    from application_schedules(pattern, after, count) as shown
    join job_definitions as def using (id)
   order by def.namespace collate "C", def.name collate "C";
end
$$;
