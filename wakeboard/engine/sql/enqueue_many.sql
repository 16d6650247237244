-- for: client, worker, operator
-- Enqueues many runs in one statement: all or none. The arrays have equal lengths; an array that is null means the default for all runs.
-- Returns what `enqueue` does, in the order of the arrays. Idempotency keys work as in `enqueue`, also between runs of
-- one call. So do `unique_for`, `unique_by` and `if_exists`, which are the same for all runs, as are `traceparent` and `tracestate`.
-- `after`: a JSON array with one element for each run: null, or a list of the runs that it waits for, as in `enqueue`. Each is an id, or an
-- object with its id and uuid, such as [[12, {"id": 13, "uuid": "0e9d…"}], null].
-- Example:
--   select * from wakeboard.enqueue_many('{send_mail, send_mail}', array['{"to": 1}', '{"to": 2}']::jsonb[]);

create or replace function wakeboard.enqueue_many(
  job_types text[], payloads jsonb[], queues text[] default null, priorities integer[] default null,
  run_ats timestamptz[] default null, idempotency_keys text[] default null, limit_keys text[] default null,
  max_attempts integer default 5, timeout_s integer default 600,
  unique_for integer default null, unique_by text[] default null, if_exists text default 'keep',
  traceparent text default null, tracestate text default null, after jsonb default null)
returns table (id bigint, created boolean, status text, uuid uuid) language plpgsql security definer
set jit = off
set work_mem = '64MB'                       -- for the copies of the rows that the trigger of job_runs checks
as $$
#variable_conflict use_column
declare
  -- Random once, and from there by a hash: some servers take a microsecond for each random uuid.
  seed constant text := gen_random_uuid()::text;
  -- What is the same for all runs is checked once.
  checked_attempts attempt_limit;
  checked_timeout duration_s;
  checked_type job_type_name;
begin
  if after is not null then
    return query
    with run as materialized (
      select row_number() over () as place, made.*
        from enqueue_many(job_types, payloads, queues, priorities, run_ats, idempotency_keys, limit_keys, max_attempts, timeout_s,
                          unique_for, unique_by, if_exists, traceparent, tracestate) as made
    )
    select run.id, run.created, run.status, run.uuid
      from run left join lock_parents(after, cardinality(job_types)) as parent using (place)
     where wait_for_runs(run.id, case when run.created then parent.ids end, parent.uuids)
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
    select run.id, run.created, run.status, run.uuid from run cross join recorded order by run.place;
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
    return query
    select made.id, made.created, made.status, made.uuid
      from enqueue_unique_runs(job_types, payloads, queues, priorities, run_ats, limit_keys, checked_attempts, checked_timeout,
                               unique_for, unique_by, if_exists) as made
     order by made.place;
    return;
  end if;
  if idempotency_keys is not null then
    return query
    select made.id, made.created, made.status, made.uuid
      from enqueue_keyed_runs(job_types, payloads, queues, priorities, run_ats, idempotency_keys, limit_keys, checked_attempts,
                              checked_timeout) as made
     order by made.place;
    return;
  end if;
  if num_nonnulls(queues, priorities, run_ats, limit_keys) = 0 and job_types[1] = all(job_types) then
    checked_type := job_types[1];
    return query
    insert into job_runs as run (uuid, timeout_s, max_attempts, job_type, payload)
    select md5(seed || job.place)::uuid, checked_timeout, checked_attempts,
           case when job.job_type is not null then checked_type end, coalesce(job.payload, '{}')
      from unnest(job_types, payloads) with ordinality as job (job_type, payload, place)
    returning run.id, true, 'queued', run.uuid;
    return;
  end if;
  return query
  insert into job_runs as run (
    scheduled_for, run_at, timeout_s, max_attempts, priority, queue, job_type, payload, limit_key)
  select coalesce(job.run_at, statement_timestamp()), coalesce(job.run_at, statement_timestamp()), checked_timeout,
         checked_attempts, coalesce(job.priority, 3), coalesce(job.queue, 'default'), job.job_type,
         coalesce(job.payload, '{}'), job.limit_key
    from unnest(job_types, payloads, queues, priorities, run_ats, limit_keys)
           as job (job_type, payload, queue, priority, run_at, limit_key)
  returning run.id, true, 'queued', run.uuid;
end
$$;
