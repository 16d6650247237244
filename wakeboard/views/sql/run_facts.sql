-- for: viewer, operator
-- Counts, from the history and the attempts, how runs and attempts ended from `since` until before `until`: one row for each `measure` of a
-- job type, queue and schedule. Measures: succeeded, cancelled, skipped, discarded (runs); failed, timed_out, crashed (attempts); died
-- (runs that became dead); and of the runs that succeeded duration and lateness, one row for each `bucket` as in `run_rollups`. `step` is
-- not null for the finished steps of the runs that ended then (succeeded and duration). `minute` is null unless `by_minute`.
-- `only_definition`: only the runs of that schedule. Attempts whose run no longer exists have no job type.
-- Example:
--   select measure, sum(count) from wakeboard.run_facts(now() - interval '5 minutes', now())
--    where step is null and bucket is null group by 1;

create or replace function wakeboard.run_facts(
  since timestamptz, until timestamptz, by_minute boolean default false, only_definition bigint default null)
returns table (
  minute timestamptz, job_type text, queue text, definition_id bigint, step text, measure text, bucket smallint, count bigint)
language plpgsql stable security definer
set enable_seqscan = off set jit = off set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
  -- Eight buckets for each doubling, from 1 ms: a value differs from the middle of its bucket by at most 4.5 %.
  per_log constant double precision := 8 / ln(2::double precision);
begin
  return query
  select minute, job_type, queue, definition_id, null::text,
         case when grouping(duration) = 0 then 'duration' when grouping(lateness) = 0 then 'lateness'
              when status = 'dead' then 'discarded' else status::text end,
         coalesce(duration, lateness)::smallint, sum(count)::bigint
    from (select case when by_minute then date_bin('1 minute', finished_at, 'epoch') end as minute,
                 past.job_type, past.queue, past.definition_id, status, sum(coalesce(skipped_count, 1)) as count,
                 case when status = 'succeeded' and started_at > 'epoch'
                      then ceil(ln(greatest(date_part('epoch', finished_at - started_at) * 1000, 1)) * per_log) end as duration,
                 case when status = 'succeeded' and started_at > 'epoch'
                      then ceil(ln(greatest(date_part('epoch', started_at - case when trigger = 'tick' then run_at
                        else greatest(run_at, created_at) end) * 1000, 1))
                                * per_log) end as lateness
            from job_run_history as past
           where finished_at >= since and finished_at < run_facts.until
             and (only_definition is null or past.definition_id = only_definition)
           group by 1, 2, 3, 4, 5, duration, lateness) as past         -- grouping sets alone take three times as long
   group by minute, job_type, queue, definition_id, grouping sets ((status), (duration), (lateness))
  having grouping(status) = 0 or coalesce(duration, lateness) is not null;

  if exists (select from job_steps) then
    return query
    select minute, job_type, queue, definition_id, name, case when grouping(bucket) = 0 then 'duration' else 'succeeded' end,
           bucket::smallint, count(*)
      from (select case when by_minute then date_bin('1 minute', past.finished_at, 'epoch') end as minute,
                   past.job_type, past.queue, past.definition_id, part.name,
                   ceil(ln(greatest(date_part('epoch', part.took) * 1000, 1)) * per_log) as bucket
              from job_run_history as past
             cross join lateral (                -- `offset 0`: an index scan for each run, whatever the statistics say
               select name, job_steps.finished_at - job_steps.started_at as took
                 from job_steps where run_id = past.id and job_steps.finished_at is not null offset 0) as part
             where past.finished_at >= since and past.finished_at < run_facts.until
               and (only_definition is null or past.definition_id = only_definition)) as part
     group by minute, job_type, queue, definition_id, name, grouping sets ((), (bucket));
  end if;

  return query
  select case when by_minute then date_bin('1 minute', made.ended_at, 'epoch') end,
         run.job_type, run.queue, run.definition_id, null::text, fact.measure, null::smallint, count(*)
    from job_attempts as made
   cross join lateral (values (made.outcome, made.outcome in ('failed', 'timed_out', 'crashed')), ('died', made.died))
              as fact (measure, counts)
    left join lateral (                          -- a run ends after its attempts: older partitions are not read
      select live.job_type::text, live.queue::text, live.definition_id from job_runs as live where live.id = made.run_id
      union all
      select past.job_type, past.queue, past.definition_id
        from job_run_history as past where past.id = made.run_id and past.finished_at >= since
      limit 1) as run on true
   where made.ended_at >= since and made.ended_at < run_facts.until and fact.counts
     and (only_definition is null or run.definition_id = only_definition)
   group by 1, 2, 3, 4, 6;
end
$$;
