-- for: worker
-- Returns, of the runs that have any of it: the trace context of their enqueue, and their latest 32 earlier attempts, oldest first (lease
-- epochs, numbers, outcomes, and when each began and ended). Workers call it only if they send traces. The history of a run keeps it all.
-- Example:
--   select * from wakeboard.trace_contexts('{42}');

create or replace function wakeboard.trace_contexts(ids wakeboard.id_array)
returns table (
  run_id bigint, traceparent text, tracestate text, epochs bigint[], attempts integer[], outcomes text[], started_ats timestamptz[],
  ended_ats timestamptz[])
language sql stable security definer
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off set lock_timeout = '1s'
as $$
  select run.id, context.traceparent, context.tracestate, earlier.epochs, earlier.attempts, earlier.outcomes, earlier.started_ats,
         earlier.ended_ats
    from unnest(ids) as run (id)
    left join job_trace_contexts as context on context.run_id = run.id
   cross join lateral (
     select array_agg(lease_epoch order by lease_epoch) as epochs, array_agg(attempt order by lease_epoch) as attempts,
            array_agg(outcome order by lease_epoch) as outcomes, array_agg(started_at order by lease_epoch) as started_ats,
            array_agg(ended_at order by lease_epoch) as ended_ats
       from (select * from job_attempts where run_id = run.id order by lease_epoch desc limit 32) as made) as earlier
   where context.run_id is not null or earlier.epochs is not null;
$$;
