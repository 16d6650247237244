-- for: client, worker, operator
-- Enqueues many runs in one statement; arrays of equal length, or null where the default serves all. Answers in their order.
-- Idempotency keys make it go one by one.

create or replace function wakeboard.enqueue_many(
  job_types text[], payloads jsonb[], queues text[] default null, priorities integer[] default null,
  run_ats timestamptz[] default null, idempotency_keys text[] default null, limit_keys text[] default null,
  max_attempts integer default 5, timeout_s integer default 600)
returns table (id bigint, created boolean) language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp
set jit = off
as $$
#variable_conflict use_column
begin
  if idempotency_keys is not null then
    return query
    select made.id, made.created
      from (select *                         -- in the keys' order: two callers with the same keys wait, and do not deadlock
              from unnest(job_types, payloads, queues, priorities, run_ats, idempotency_keys, limit_keys) with ordinality
                     as job (job_type, payload, queue, priority, run_at, key, limit_key, place)
             order by job_type, key, place) as job
     cross join lateral enqueue(job.job_type, coalesce(job.payload, '{}'), coalesce(job.queue, 'default'), coalesce(job.priority, 3),
                                job.run_at, job.key, job.limit_key, enqueue_many.max_attempts, enqueue_many.timeout_s) as made
     order by job.place;
    return;
  end if;
  return query
  insert into job_runs as run (scheduled_for, run_at, timeout_s, max_attempts, priority, queue, job_type, payload, limit_key)
  select coalesce(job.run_at, statement_timestamp()), coalesce(job.run_at, statement_timestamp()), enqueue_many.timeout_s,
         enqueue_many.max_attempts, coalesce(job.priority, 3), coalesce(job.queue, 'default'), job.job_type,
         coalesce(job.payload, '{}'), job.limit_key
    from unnest(job_types, payloads, queues, priorities, run_ats, limit_keys)
           as job (job_type, payload, queue, priority, run_at, limit_key)
  returning run.id, true;
end
$$;
