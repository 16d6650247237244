-- internal (called by enqueue_many)
-- Enqueues runs of which, for `unique_for` seconds, one of a job type has the values of the payload's keys `unique_by`, as `enqueue` does.
-- Returns a row for each, in any order; `place` is that in the arrays. The caller has checked the arguments.

create or replace function wakeboard.enqueue_unique_runs(
  job_types text[], payloads jsonb[], queues text[], priorities integer[], run_ats timestamptz[], limit_keys text[],
  max_attempts wakeboard.attempt_limit, timeout_s wakeboard.duration_s, unique_for integer, unique_by text[], if_exists text)
returns table (place bigint, id bigint, uuid uuid, created boolean, status text) language plpgsql security definer
as $$
#variable_conflict use_column
declare
  -- Random once, and from there by a hash: some servers take a microsecond for each random uuid.
  seed constant text := gen_random_uuid()::text;
  keys constant bytea[] := array(select unique_key(coalesce(job.payload, '{}')::run_payload, unique_by)
                                   from unnest(job_types, payloads) with ordinality as job (job_type, payload, place) order by job.place);
  new_ids constant bigint[] := array(select nextval('job_runs_id_seq') from unnest(job_types));
begin
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
    select chosen.*, known.run_id, known.run_uuid, known.run_status
      from chosen
      left join lateral unique_run(
        chosen.job_type::job_type_name, chosen.key, unique_for, chosen.id, md5(seed || chosen.id)::uuid,
        coalesce(if_exists = 'replace', false), coalesce(chosen.payload, '{}'),
        coalesce(chosen.run_at, statement_timestamp())) as known on true
  ), inserted as (
    insert into job_runs (
      id, uuid, scheduled_for, run_at, timeout_s, max_attempts, priority, queue, job_type, payload, limit_key)
    overriding system value
    select answer.id, md5(seed || answer.id)::uuid, coalesce(answer.run_at, statement_timestamp()),
           coalesce(answer.run_at, statement_timestamp()), timeout_s, max_attempts, coalesce(answer.priority, 3),
           coalesce(answer.queue, 'default'), answer.job_type, coalesce(answer.payload, '{}'), answer.limit_key
      from answer where answer.run_id is null order by answer.place
  )
  select job.place, coalesce(answer.run_id, answer.id),
         case when answer.run_id is null then md5(seed || answer.id)::uuid else answer.run_uuid end,
         answer.run_id is null and job.is_first, case when answer.run_id is null then 'queued' else answer.run_status end
    from job join answer on answer.job_type = job.job_type and answer.key = job.key;
end
$$;
