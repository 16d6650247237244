-- internal (called by enqueue_many)
-- Enqueues runs of which some have idempotency keys, as `enqueue` does. Returns a row for each, in any order; `place` is that in the
-- arrays. The caller has checked the arguments.

create or replace function wakeboard.enqueue_keyed_runs(
  job_types text[], payloads jsonb[], queues text[], priorities integer[], run_ats timestamptz[], idempotency_keys text[],
  limit_keys text[], max_attempts wakeboard.attempt_limit, timeout_s wakeboard.duration_s)
returns table (place bigint, id bigint, uuid uuid, created boolean, status text) language plpgsql security definer
as $$
#variable_conflict use_column
declare
  -- Random once, and from there by a hash: some servers take a microsecond for each random uuid.
  seed constant text := gen_random_uuid()::text;
  new_ids constant bigint[] := array(select nextval('job_runs_id_seq') from unnest(job_types));
begin
  -- All runs without a key, or with an unused key, are created in one statement.
  with free as (
    insert into job_keys (job_type, key, run_id, run_uuid, payload_hash)
    select job.job_type::job_type_name, job.key, job.id, md5(seed || job.id)::uuid,
           md5(jsonb_strip_nulls(coalesce(job.payload, '{}'))::text)
      from unnest(job_types, payloads, idempotency_keys, new_ids) with ordinality as job (job_type, payload, key, id, place)
     where job.key is not null
     order by job.job_type, job.key, job.place   -- two callers with the same keys wait, and do not deadlock
        on conflict on constraint an_idempotency_key_is_used_once_per_job_type do nothing
    returning run_id
  )
  insert into job_runs (
    id, uuid, scheduled_for, run_at, timeout_s, max_attempts, priority, queue, job_type, payload, limit_key, idempotency_key)
  overriding system value
  select job.id, md5(seed || job.id)::uuid, coalesce(job.run_at, statement_timestamp()),
         coalesce(job.run_at, statement_timestamp()), timeout_s, max_attempts, coalesce(job.priority, 3),
         coalesce(job.queue, 'default'), job.job_type, coalesce(job.payload, '{}'), job.limit_key, job.key
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
  )
  select job.place, job.id, md5(seed || job.id)::uuid as uuid, true as created, 'queued' as status from job where made
  union all
  select other.place, known.id, known.uuid, known.created, known.status
    from other
   cross join lateral enqueue(other.job_type, coalesce(other.payload, '{}'), coalesce(other.queue, 'default'),
                              coalesce(other.priority, 3), other.run_at, other.key, other.limit_key,
                              max_attempts, timeout_s) as known;
end
$$;
