-- for: client, worker, operator
-- Enqueues many runs in one statement: all or none. The arrays have equal lengths; an array that is null means the default for all runs.
-- Returns id, created and status in the order of the arrays, as `enqueue` does. Idempotency keys work as in `enqueue`, also between runs of
-- one call. So do `unique_for`, `unique_by` and `if_exists`, which are the same for all runs, as are `traceparent` and `tracestate`.
-- `after`: a JSON array with one element for each run: null, or the ids of the runs that it waits for, as in `enqueue`.
-- Example:
--   select * from wakeboard.enqueue_many('{send_mail, send_mail}', array['{"to": 1}', '{"to": 2}']::jsonb[]);

create or replace function wakeboard.enqueue_many(
  job_types text[], payloads jsonb[], queues text[] default null, priorities integer[] default null,
  run_ats timestamptz[] default null, idempotency_keys text[] default null, limit_keys text[] default null,
  max_attempts integer default 5, timeout_s integer default 600,
  unique_for integer default null, unique_by text[] default null, if_exists text default 'keep',
  traceparent text default null, tracestate text default null, after jsonb default null)
returns table (id bigint, created boolean, status text) language plpgsql security definer
set jit = off
set work_mem = '64MB'                       -- for the copies of the rows that the trigger of job_runs checks
as $$
#variable_conflict use_column
declare
  new_ids bigint[];
  keys bytea[];                        -- of unique runs
  -- Random once, and from there by a hash: some servers take a microsecond for each random uuid.
  seed constant text := gen_random_uuid()::text;
  -- What is the same for all runs is checked once.
  checked_attempts attempt_limit;
  checked_timeout duration_s;
  checked_type job_type_name;
  base duration_s := 10;
  cap duration_s := 3600;
  normal run_priority := 3;
  default_queue queue_name := 'default';
begin
  if after is not null then
    if (jsonb_typeof(after) = 'array' and jsonb_array_length(after) = cardinality(job_types)
        and not jsonb_path_exists(after, 'strict $[*] ? (@ != null && @.type() != "array")')
        and not jsonb_path_exists(after,
          'strict $[*] ? (@.type() == "array")[*] ? (@.type() != "number" || @ < 0 || @ > 9000000000000000000 || @ != @.floor())')
       ) is not true then
      perform refuse_argument('after', left(after::text, 60), 'for each run null or the ids of runs, such as [[12, 13], null]');
    end if;
    perform lock_parents(array(select (jsonb_path_query(after, 'strict $[*] ? (@.type() == "array")[*]'))::bigint));
    return query
    with run as materialized (
      select row_number() over () as place, made.*
        from enqueue_many(job_types, payloads, queues, priorities, run_ats, idempotency_keys, limit_keys, max_attempts, timeout_s,
                          unique_for, unique_by, if_exists, traceparent, tracestate) as made
    )
    select run.id, run.created, run.status
      from run
     where wait_for_runs(run.id, case when run.created and jsonb_typeof(after -> (run.place - 1)::integer) = 'array'
                                      then array(select parent::bigint
                                        from jsonb_array_elements_text(after -> (run.place - 1)::integer) as parent) end)
     order by run.place;
    return;
  elsif traceparent is not null then
    return query
    with run as materialized (
      select row_number() over () as place, made.*
        from enqueue_many(job_types, payloads, queues, priorities, run_ats, idempotency_keys, limit_keys, max_attempts, timeout_s,
                          unique_for, unique_by, if_exists) as made
    ), recorded as materialized (
      select record_trace_context(array(select run.id from run where run.created), enqueue_many.traceparent, enqueue_many.tracestate)
    )
    select run.id, run.created, run.status from run cross join recorded order by run.place;
    return;
  elsif array_ndims(job_types) > 1 then
    raise exception using errcode = '22023', message = 'job_types has more than one dimension; write one job type for each run';
  elsif job_types is null or array_position(job_types, null) is not null then
    perform refuse_argument(case when job_types is null then 'job_types' else 'a job type' end, null, 'a job type for each run');
  elsif cardinality(payloads) <> cardinality(job_types) or cardinality(queues) <> cardinality(job_types)
     or cardinality(priorities) <> cardinality(job_types) or cardinality(run_ats) <> cardinality(job_types)
     or cardinality(idempotency_keys) <> cardinality(job_types) or cardinality(limit_keys) <> cardinality(job_types) then
    raise exception using errcode = '22023', message = 'the arrays of enqueue_many differ in length; write one element for each run';
  end if;
  perform refuse_value('reserved job_type', name) from unnest(job_types) as name where name like 'wakeboard.%';
  perform refuse_value('limit_key', key) from unnest(limit_keys) as key where key like '%:%';     -- the keys of schedules
  perform refuse_value('priority', priority::text) from unnest(priorities) as priority where priority not between 1 and 5;
  perform refuse_argument('run_at', moment::text, 'a time from 1970 to 2999') from unnest(run_ats) as moment
    where moment < 'epoch' or moment >= '3000-01-01 00:00+00';
  perform refuse_argument('max_attempts', max_attempts::text, 'a whole number from 1 to 1000') where max_attempts not between 1 and 1000;
  perform refuse_argument('timeout_s', timeout_s::text, 'a number of seconds from 1 to 2678400 (31 days)')
    where timeout_s not between 1 and 2678400;
  checked_attempts := coalesce(max_attempts, 5);
  checked_timeout := coalesce(timeout_s, 600);
  if unique_for is not null or unique_by is not null or if_exists <> 'keep' then
    perform check_unique(unique_for, unique_by, if_exists, num_nonnulls(variadic idempotency_keys) > 0);
    keys := array(select unique_key(coalesce(job.payload, '{}')::run_payload, unique_by)
                    from unnest(job_types, payloads) with ordinality as job (job_type, payload, place) order by job.place);
    new_ids := array(select nextval('job_runs_id_seq') from unnest(job_types));
    if if_exists = 'replace' then          -- lock all keys first, in their order, then all runs: two callers do not deadlock
      insert into job_unique_keys (job_type, key, run_id, run_uuid, unique_until)
      select distinct on (job_type, key) job_type::job_type_name, key, id, md5(seed || id)::uuid,
             statement_timestamp() + make_interval(secs => unique_for)
        from unnest(job_types, keys, new_ids) with ordinality as job (job_type, key, id, place)
       order by job_type, key, place desc
          on conflict on constraint a_unique_key_has_one_run_per_job_type do update set run_id = excluded.run_id where false;
      perform from job_runs as run         -- in the order in which other functions lock runs
        where run.status in ('queued', 'failed') and run.id = any (array(
          select known.run_id from unnest(job_types, keys) as job (job_type, key) join job_unique_keys as known using (job_type, key)))
        order by run.id for no key update;
    end if;
    return query
    with job as materialized (
      select job.*, row_number() over (partition by job.job_type, job.key order by job.place) = 1 as is_first
        from unnest(job_types, payloads, queues, priorities, run_ats, limit_keys, new_ids, keys) with ordinality
               as job (job_type, payload, queue, priority, run_at, limit_key, id, key, place)
    ), chosen as materialized (            -- one for each key: the first, or the one that replaces the others
      select distinct on (job_type, key) * from job
       -- two callers with the same keys do not deadlock
       order by job_type, key, case when if_exists = 'replace' then -place else place end
    ), answer as materialized (
      select chosen.*, known.run_id, known.run_status
        from chosen
        left join lateral unique_run(
          chosen.job_type::job_type_name, chosen.key, unique_for, chosen.id, md5(seed || chosen.id)::uuid,
          coalesce(if_exists = 'replace', false), coalesce(chosen.payload, '{}'),
          coalesce(chosen.run_at, statement_timestamp())) as known on true
    ), inserted as (
      insert into job_runs (
        id, uuid, scheduled_for, run_at, timeout_s, max_attempts, backoff_base_s, backoff_cap_s, priority, queue, job_type, payload,
        limit_key)
      overriding system value
      select answer.id, md5(seed || answer.id)::uuid, coalesce(answer.run_at, statement_timestamp()),
             coalesce(answer.run_at, statement_timestamp()), checked_timeout, checked_attempts, base, cap, coalesce(answer.priority, 3),
             coalesce(answer.queue, 'default'), answer.job_type, coalesce(answer.payload, '{}'), answer.limit_key
        from answer where answer.run_id is null order by answer.place
    )
    select coalesce(answer.run_id, answer.id), answer.run_id is null and job.is_first,
           case when answer.run_id is null then 'queued' else answer.run_status end
      from job join answer on answer.job_type = job.job_type and answer.key = job.key
     order by job.place;
    return;
  end if;
  if num_nonnulls(queues, priorities, run_ats, idempotency_keys, limit_keys) = 0 and job_types[1] = all(job_types) then
    checked_type := job_types[1];
    return query
    insert into job_runs as run (uuid, timeout_s, max_attempts, backoff_base_s, backoff_cap_s, priority, queue, job_type, payload)
    select md5(seed || job.place)::uuid, checked_timeout, checked_attempts, base, cap, normal, default_queue,
           case when job.job_type is not null then checked_type end, coalesce(job.payload, '{}')
      from unnest(job_types, payloads) with ordinality as job (job_type, payload, place)
    returning run.id, true, 'queued';
    return;
  end if;
  if idempotency_keys is null then
    return query
    insert into job_runs as run (
      scheduled_for, run_at, timeout_s, max_attempts, backoff_base_s, backoff_cap_s, priority, queue, job_type, payload, limit_key)
    select coalesce(job.run_at, statement_timestamp()), coalesce(job.run_at, statement_timestamp()), checked_timeout,
           checked_attempts, base, cap, coalesce(job.priority, 3), coalesce(job.queue, 'default'), job.job_type,
           coalesce(job.payload, '{}'), job.limit_key
      from unnest(job_types, payloads, queues, priorities, run_ats, limit_keys)
             as job (job_type, payload, queue, priority, run_at, limit_key)
    returning run.id, true, 'queued';
    return;
  end if;

  -- All runs without a key, or with an unused key, are created in one statement.
  new_ids := array(select nextval('job_runs_id_seq') from unnest(job_types));
  with free as (
    insert into job_keys (job_type, key, run_id, run_uuid, payload_hash)
    select job.job_type::job_type_name, job.key, job.id, md5(seed || job.id)::uuid, md5(coalesce(job.payload, '{}')::text)
      from unnest(job_types, payloads, idempotency_keys, new_ids) with ordinality as job (job_type, payload, key, id, place)
     where job.key is not null
     order by job.job_type, job.key, job.place   -- two callers with the same keys wait, and do not deadlock
        on conflict on constraint an_idempotency_key_is_used_once_per_job_type do nothing
    returning run_id, run_uuid
  )
  insert into job_runs (
    id, uuid, scheduled_for, run_at, timeout_s, max_attempts, backoff_base_s, backoff_cap_s, priority, queue, job_type, payload,
    limit_key, idempotency_key)
  overriding system value
  select job.id, coalesce(free.run_uuid, gen_random_uuid()), coalesce(job.run_at, statement_timestamp()),
         coalesce(job.run_at, statement_timestamp()), checked_timeout, checked_attempts, base, cap,
         coalesce(job.priority, 3), coalesce(job.queue, 'default'), job.job_type, coalesce(job.payload, '{}'), job.limit_key, job.key
    from unnest(job_types, payloads, queues, priorities, run_ats, idempotency_keys, limit_keys, new_ids)
           as job (job_type, payload, queue, priority, run_at, key, limit_key, id)
    left join free on free.run_id = job.id
   where job.key is null or free.run_id is not null;

  -- For the others, `enqueue` returns the run of the key. Each is a separate call, because a key may just have been deleted.
  return query
  with job as materialized (
    select job.*, exists (select from job_runs as run where run.id = job.id) as made
      from unnest(job_types, payloads, queues, priorities, run_ats, idempotency_keys, limit_keys, new_ids) with ordinality
             as job (job_type, payload, queue, priority, run_at, key, limit_key, id, place)
  ), other as materialized (
    select * from job where not made
  ), answer as (
    select job.place, job.id, true as created, 'queued' as status from job where made
    union all
    select other.place, known.id, known.created, known.status
      from other
     cross join lateral enqueue(other.job_type, coalesce(other.payload, '{}'), coalesce(other.queue, 'default'),
                                coalesce(other.priority, 3), other.run_at, other.key, other.limit_key,
                                enqueue_many.max_attempts, enqueue_many.timeout_s) as known
  )
  select answer.id, answer.created, answer.status from answer order by answer.place;
end
$$;
