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

-- doubled: an effect once for ever happens once, whatever runs have it
select key, count(*), array_agg(run_id) from chaos.forever_effects group by 1 having count(*) > 1;

-- doubled: all runs give a provider one key for an effect once for ever
select label, count(*), array_agg(run_id) from chaos.parcels where label like 'invoice:%' group by 1 having count(*) > 1;

-- lost: each effect once for ever of a run that succeeded has happened
select run.id, run.payload ->> 'invoice' from wakeboard.job_run_history as run
 where run.status = 'succeeded' and run.job_type = 'invoices'
   and not (exists (select from chaos.parcels where label = 'invoice:' || (run.payload ->> 'invoice'))
            and exists (select from chaos.forever_effects where key = 'booking:' || (run.payload ->> 'invoice')));

-- other: every effect once for ever is in job_forever_effects
select key from chaos.forever_effects except select key from wakeboard.job_forever_effects;

-- doubled: an idempotency key makes one run
select idempotency_key, count(*), array_agg(id) from wakeboard.all_runs
 where idempotency_key is not null
 group by job_type, idempotency_key having count(*) > 1;

-- other: a lease ends before another begins
select run_id, at, holder from chaos.transitions where what = 'taken over';

-- other: every effect is in job_effects
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

-- other: the lease epoch is that of the last claim or reap
select run.id, run.lease_epoch, max(step.epoch)
  from wakeboard.all_runs as run
  join chaos.transitions as step on step.run_id = run.id and step.what in ('claimed', 'reaped')
 where run.id <> all (%(changed_by_users)s)
 group by 1, 2 having run.lease_epoch <> max(step.epoch);

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

-- doubled: a schedule runs once for each tick of the schedules that it runs after
select definition_id, scheduled_for, count(*), array_agg(id) from wakeboard.all_runs
 where trigger = 'tick' and status <> 'skipped' and definition_id in (select definition_id from wakeboard.schedule_dependencies)
 group by 1, 2 having count(*) > 1;

-- lost: a schedule runs for each tick for which all schedules that it runs after have succeeded
select edge.definition_id, past.scheduled_for
  from wakeboard.schedule_dependencies as edge
  join wakeboard.job_run_history as past on past.definition_id = edge.parent_id and past.trigger <> 'manual'
 where edge.place = 1 and past.status = 'succeeded'
   and past.scheduled_for = date_trunc('second', past.scheduled_for)  -- a requested run, also its replay, is of no tick
   and not exists (select from wakeboard.schedule_dependencies as other
                    where other.definition_id = edge.definition_id
                      and not exists (select from wakeboard.job_run_history as needed
                                       where needed.definition_id = other.parent_id and needed.trigger <> 'manual'
                                         and needed.scheduled_for = past.scheduled_for and needed.status = 'succeeded'
                                         and needed.finished_at < now() - interval '15 s'))
   and not exists (select from wakeboard.all_runs as made
                    where made.definition_id = edge.definition_id and made.scheduled_for = past.scheduled_for
                      and made.trigger = 'tick' and made.status <> 'skipped');

-- other: a schedule runs for no tick before those that it runs after have succeeded
select run.id, run.schedule, run.scheduled_for, edge.parent_name
  from wakeboard.schedule_dependencies as edge
  join wakeboard.all_runs as run on run.definition_id = edge.definition_id and run.trigger = 'tick' and run.status <> 'skipped'
  join chaos.transitions as step on step.run_id = run.id and step.what = 'created'  -- created_at is when the statement began
 where edge.outcome = 'Succeeded'
   and not exists (select from wakeboard.job_run_history as past
                    where past.definition_id = edge.parent_id and past.trigger <> 'manual'
                      and past.scheduled_for = run.scheduled_for and past.status = 'succeeded'
                      and past.finished_at <= step.at);

-- other: no run starts before the runs that it waits for have succeeded
select edge.run_id, edge.parent_id, step.at
  from wakeboard.run_dependencies as edge
  join wakeboard.all_runs as run on run.id = edge.run_id and run.definition_id is null
  join chaos.transitions as step on step.run_id = edge.run_id and step.what = 'claimed'
 where not exists (select from wakeboard.job_run_history as past
                    where past.id = edge.parent_id and past.status = 'succeeded' and past.finished_at <= step.at);

-- lost: a run that waits is started when the runs that it waits for have succeeded
select run.id, run.run_at
  from wakeboard.job_runs as run
 where run.run_at = '2999-12-31 00:00+00'
   and not exists (select from wakeboard.run_dependencies as edge
                    where edge.run_id = run.id
                      and not exists (select from wakeboard.job_run_history as past
                                       where past.id = edge.parent_id and past.status = 'succeeded'
                                         and past.finished_at < now() - interval '15 s'));

-- lost: no end of a run is left over
select ended.run_id, ended.definition_id, ended.scheduled_for, ended.outcome
  from wakeboard.ended_runs as ended join wakeboard.job_run_history as past on past.id = ended.run_id
 where past.finished_at < now() - interval '15 s';

-- doubled: a tick is backfilled once
select definition_id, scheduled_for, count(*), array_agg(id) from wakeboard.all_runs
 where trigger = 'backfill' and status <> 'cancelled'
 group by 1, 2 having count(*) > 1;

-- lost: each tick of a backfill becomes a run, and leaves the backfill only when that is cancelled
select job.id, job.total, job.created, count(item.tick), count(run.id), job.paused_at, job.finished_at
  from wakeboard.backfills as job
  left join wakeboard.backfill_ticks as item on item.backfill_id = job.id
  left join wakeboard.all_runs as run on run.id = item.run_id and run.scheduled_for = item.tick and run.trigger = 'backfill'
 where job.cancelled_at is null
 group by job.id
having job.created <> job.total or count(run.id) <> count(item.tick)
    or job.total - count(item.tick) not between 0 and (
         select count(*) from wakeboard.all_runs as gone
          where gone.definition_id = job.definition_id and gone.trigger = 'backfill' and gone.status = 'cancelled'
            and gone.scheduled_for >= job.range_begin and gone.scheduled_for < job.range_end);

-- other: each backfill ends
select id, total, created, paused_at from wakeboard.backfills where finished_at is null;

-- other: an open circuit lets one run of a tick at a time through
with made as (
  select run.definition_id, run.id, step.at
    from chaos.circuits as any_change
    join wakeboard.all_runs as run
      on run.definition_id = any_change.definition_id and run.trigger = 'tick' and run.status <> 'skipped'
    join chaos.transitions as step on step.run_id = run.id and step.what = 'created'
   group by 1, 2, 3
)
select first.id, second.id, changed.at
  from chaos.circuits as changed
  join made as first on first.definition_id = changed.definition_id and first.at > changed.at
  join made as second on second.definition_id = changed.definition_id and second.at > first.at
 where changed.is_open
   and not exists (select from chaos.circuits as closed
                    where closed.definition_id = changed.definition_id and not closed.is_open
                      and closed.at > changed.at and closed.at < second.at)
   and not exists (select from chaos.transitions as step
                    where step.run_id = first.id and (step.what = 'removed' or step.status = 'dead') and step.at < second.at);

-- other: no run starts while a handler has paused its limit key
select step.run_id, step.limit_key, step.started_at, pause.at, pause.paused_until
  from chaos.limit_pauses as pause
  join chaos.transitions as step on step.what = 'claimed' and step.limit_key = pause.key
   and step.started_at > pause.at and step.started_at < pause.paused_until;
