-- The invariants that hold when everything has drained. Each query returns the rows that violate one.
-- The comment above it has the category (lost, doubled, other) and the invariant. A user may have retried the runs in
-- %(changed_by_users)s.

-- doubled: at most one accepted completion per run
select id, count(*) from wakeboard.job_run_history where status <> 'skipped' group by id having count(*) > 1;

-- doubled: a run leaves job_runs once
select run_id, count(*) from chaos.transitions where what = 'removed' group by 1 having count(*) > 1;

-- doubled: every run is in exactly one table (in both)
select id from wakeboard.job_runs intersect select id from wakeboard.job_run_history;

-- lost: every run is in exactly one table (in none)
select run_id from chaos.transitions where what = 'created' except select id from wakeboard.all_runs;

-- doubled: a run's uuid is its own
select uuid, count(*) from wakeboard.all_runs group by 1 having count(*) > 1;

-- doubled: the accepted completion came from the worker of the last lease
select past.id, past.locked_by, last.holder
  from wakeboard.job_run_history as past
  join lateral (select holder, epoch from chaos.transitions
                 where run_id = past.id and what = 'claimed' order by position desc limit 1) as last on true
 where past.status = 'succeeded' and (past.locked_by, past.lease_epoch) <> (last.holder, last.epoch);

-- doubled: no effect twice
select run_uuid, key, count(*), array_agg(run_id) from chaos.effects group by 1, 2 having count(*) > 1;

-- doubled: a provider that respects the key has one parcel for a run, with the label that was stored
select run.id, parcel.label, run.result
  from wakeboard.job_run_history as run left join chaos.parcels as parcel on parcel.run_id = run.id
 where run.status = 'succeeded' and run.job_type = 'ships' and run.result ->> 'label' is distinct from parcel.label;

-- doubled: an idempotency key makes one run
select idempotency_key, count(*), array_agg(id) from wakeboard.all_runs
 where idempotency_key is not null
 group by job_type, idempotency_key having count(*) > 1;

-- other: a lease ends before another begins
select run_id, at, holder from chaos.transitions where what = 'taken over';

-- other: every effect is in the ledger
select run_uuid, key from chaos.effects except select run_uuid, key from wakeboard.job_effects;

-- other: crashes are counted right
select run.id, run.status, run.crash_count, count(tries)
  from wakeboard.all_runs as run
  left join wakeboard.job_attempts as tries on tries.run_id = run.id and tries.outcome = 'crashed'
 where run.status <> 'cancelled' and run.id <> all (%(changed_by_users)s)
 group by 1, 2, 3 having run.crash_count <> count(tries);

-- other: attempts are counted right
select run.id, run.status, run.attempts, run.release_count, count(tries)
  from wakeboard.all_runs as run
  left join wakeboard.job_attempts as tries on tries.run_id = run.id and tries.outcome in ('failed', 'timed_out')
 where run.status in ('succeeded', 'dead') and run.id <> all (%(changed_by_users)s)
 group by run.id, run.status, run.attempts, run.release_count
having run.attempts <> count(tries) + (run.status = 'succeeded')::integer + greatest(0, run.release_count - 4);

-- other: the lease epoch counts claims and reaps
select run.id, run.lease_epoch, count(*)
  from wakeboard.all_runs as run
  join chaos.transitions as step on step.run_id = run.id and step.what in ('claimed', 'reaped')
 where run.id <> all (%(changed_by_users)s)
 group by 1, 2 having run.lease_epoch <> count(*);

-- other: a dead run crashed three times, used its attempts up, or was discarded
select id, error_type, attempts, crash_count from wakeboard.all_runs
 where status = 'dead' and not (crash_count = 3 and error_type = 'WorkerCrashed') and attempts < max_attempts
   and error_type not in ('Discard', 'ReleasedTooOften');

-- other: results and errors of handlers are bounded
select id, length(last_error), pg_column_size(result) from wakeboard.all_runs
 where length(last_error) > 2000 or pg_column_size(result) > 65536;

-- other: a step's stored result is what the completed attempt saw
select run.id, run.result, step.result
  from wakeboard.job_run_history as run
  join wakeboard.job_steps as step on step.run_id = run.id and step.name = 'label'
 where run.status = 'succeeded' and run.job_type = 'ships'
   and (run.result ->> 'label' <> step.result #>> '{}' or run.result ->> 'receipt' <> 'for ' || (step.result #>> '{}'));

-- other: an application's row and its run commit together
select ord.tag, ord.run_id, run.id
  from chaos.orders as ord
  full join (select id, payload ->> 'tag' as tag from wakeboard.all_runs where payload ->> 'tag' like 'order-%') as run
    on run.tag = ord.tag and run.id = ord.run_id
 where ord.run_id is null or run.id is null;

-- other: no run is stuck
select id, job_type, status, run_at, attempts, crash_count, locked_by, locked_until, left(last_error, 200)
  from wakeboard.job_runs where status <> 'dead' and run_at < now() - interval '10 s';
