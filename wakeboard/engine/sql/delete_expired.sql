-- for: worker, operator
-- Deletes, at most `count` rows of each kind: attempts, steps, effects, dependencies, and ticks of schedules with dependencies, older than
-- `history_retention` whose run is neither live nor in history, and the names of workers that ended 31 days before that; idempotency keys
-- whose run ended more than `key_retention` ago; keys of effects once for ever that happened longer ago than the installation's retention
-- for them; unique windows that have ended; unused limits that no administrator set; action tokens
-- older than 90 days; audit rows, bulk actions and finished backfills older than the installation's retention for them; the lists of runs
-- of finished bulk actions older than `history_retention`; job types that no worker has known for a day; entries of definition_changes
-- older than an hour; schedules of applications that were removed longer than `history_retention` ago. Ends bulk actions older than
-- `history_retention`. Discards dead runs older than `dead_retention`, if the installation has a retention for them. A retention that is
-- null, or shorter than the installation's (set_retention), counts as the installation's. Trace contexts are deleted like attempts. Ticks
-- that others still wait for, or that wait, are kept as long as audit rows: those that the next tick of a schedule with `ticks: All` needs,
-- those that wait for a retry of another run, and those of paused schedules. Returns how many rows it deleted: call it again until it
-- returns 0. For an hour after that it deletes nothing and returns null, unless `always`.
-- Example:
--   select wakeboard.delete_expired();

create or replace function wakeboard.delete_expired(
  key_retention interval default null, dead_retention interval default null, history_retention interval default null,
  count integer default 1000, always wakeboard.switch default false)
returns integer language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
set lock_timeout = '2s'
as $$
declare
  side text;
  since text;
  gone integer;
  total integer := 0;
  old_dead bigint[];
  audit_retention interval;
  effect_retention interval;           -- null: forever
begin
  if not always and exists (
       select from installation where expired_deleted_at between statement_timestamp() - interval '1 hour' and statement_timestamp()) then
    return null;
  end if;
  select longer_retention(min_key_retention, key_retention), longer_retention(min_history_retention, history_retention),
         case when min_dead_retention is not null then longer_retention(min_dead_retention, dead_retention) end,
         min_audit_retention, min_effect_retention
    into key_retention, history_retention, dead_retention, audit_retention, effect_retention from installation;
  delete_expired.count := least(greatest(coalesce(delete_expired.count, 1000), 1), 100000);
  -- What belongs to a run goes when the run has gone.
  for side, since in values ('job_attempts', 'ended_at'), ('job_steps', 'started_at'), ('job_effects', 'started_at'),
                            ('job_trace_contexts', 'created_at'), ('run_dependencies', 'created_at') loop
    execute format('delete from %1$I where ctid = any (array(
      select side.ctid from %1$I as side
       where side.%2$I < statement_timestamp() - $1
         and not exists (select from job_runs where id = side.run_id)
         and not exists (select from job_run_history where id = side.run_id)
       order by side.%2$I limit $2 for update skip locked))', side, since) using history_retention, delete_expired.count;
    get diagnostics gone = row_count; total := total + gone;
  end loop;
  delete from job_keys where ctid = any (array(
    select side.ctid from job_keys as side
     where side.created_at < statement_timestamp() - key_retention
       and not exists (select from job_runs where id = side.run_id)
       and not exists (select from job_run_history as past
                        where past.id = side.run_id and past.finished_at > statement_timestamp() - key_retention)
     order by side.created_at limit delete_expired.count for update skip locked));
  get diagnostics gone = row_count; total := total + gone;
  delete from job_forever_effects where ctid = any (array(             -- null deletes none
    select side.ctid from job_forever_effects as side
     where side.finished_at < statement_timestamp() - effect_retention
       and not exists (select from job_runs where id = side.run_id)
     order by side.finished_at limit delete_expired.count for update skip locked));
  get diagnostics gone = row_count; total := total + gone;
  delete from job_unique_keys where ctid = any (array(
    select ctid from job_unique_keys where unique_until <= statement_timestamp()
     order by unique_until limit delete_expired.count for update skip locked));
  get diagnostics gone = row_count; total := total + gone;
  delete from past_workers where ctid = any (array(                    -- an attempt may take 31 days
    select ctid from past_workers where ended_at < statement_timestamp() - history_retention - interval '31 days'
     order by ended_at limit delete_expired.count for update skip locked));
  get diagnostics gone = row_count; total := total + gone;
  delete from schedule_ticks where ctid = any (array(
    select tick.ctid from schedule_ticks as tick
     where tick.recorded_at < statement_timestamp() - history_retention
       and not exists (select from job_runs where id = tick.run_id)
       and not exists (select from job_run_history where id = tick.run_id)      -- its replay would run the tick again
       and (tick.waits_for is null or tick.recorded_at < statement_timestamp() - audit_retention)
       and (tick.recorded_at < statement_timestamp() - audit_retention
            or not exists (             -- a tick of a schedule that needs all ticks, and waits or is to come
                 select from schedule_dependencies as edge
                  where edge.parent_id = tick.definition_id and edge.ticks = 'All'
                    and (select own.waits_for is null from schedule_ticks as own
                          where own.definition_id = edge.definition_id and own.scheduled_for >= tick.scheduled_for
                          order by own.scheduled_for limit 1) is not true)
               and not exists (             -- a tick that waits for a retry of another run
                 select from schedule_dependencies as edge
                   join schedule_dependencies as other on other.definition_id = edge.definition_id
                   join schedule_ticks as blocked on blocked.definition_id = other.parent_id and blocked.scheduled_for = tick.scheduled_for
                   join job_runs as run on run.id = blocked.run_id
                  where edge.parent_id = tick.definition_id
                    and not exists (select from schedule_ticks as own
                                     where own.definition_id = edge.definition_id and own.scheduled_for = tick.scheduled_for)))
     order by tick.recorded_at limit delete_expired.count for update of tick skip locked));
  get diagnostics gone = row_count; total := total + gone;
  delete from job_limits where key = any (array(
    select bound.key from job_limits as bound
     where not bound.is_explicit and bound.rate_count is null and bound.created_at < statement_timestamp() - interval '1 day'
       and bound.paused_until < statement_timestamp()
       and not exists (select from job_runs where limit_key = bound.key)
       and (bound.key !~ '^schedule:'
            or not exists (select from job_definitions
                            where removed_at is null
                              and id = case when bound.key ~ '^schedule:[0-9]{1,18}$' then substring(bound.key from 10)::bigint end))
     limit delete_expired.count for update skip locked));
  get diagnostics gone = row_count; total := total + gone;
  delete from action_tokens where ctid = any (array(
    select ctid from action_tokens where requested_at < statement_timestamp() - interval '90 days'
     order by requested_at limit delete_expired.count for update skip locked));
  get diagnostics gone = row_count; total := total + gone;
  delete from audit_log where ctid = any (array(
    select log.ctid from audit_log as log
     where log.at < statement_timestamp() - audit_retention
     order by log.at limit delete_expired.count for update skip locked));
  get diagnostics gone = row_count; total := total + gone;
  update bulk_actions set cancelled_at = statement_timestamp(), finished_at = statement_timestamp()
   where id = any (array(
     select id from bulk_actions where finished_at is null and created_at < statement_timestamp() - history_retention
      for no key update skip locked));
  delete from bulk_action_runs where ctid = any (array(
    select item.ctid from bulk_actions as bulk join bulk_action_runs as item on item.bulk_action_id = bulk.id
     where bulk.finished_at is not null and bulk.created_at < statement_timestamp() - history_retention
     limit delete_expired.count for update of item skip locked));
  get diagnostics gone = row_count; total := total + gone;
  delete from bulk_actions where ctid = any (array(
    select bulk.ctid from bulk_actions as bulk
     where bulk.created_at < statement_timestamp() - audit_retention
       and not exists (select from bulk_action_runs where bulk_action_id = bulk.id)
     order by bulk.id limit delete_expired.count for update skip locked));
  get diagnostics gone = row_count; total := total + gone;
  delete from backfill_ticks where ctid = any (array(
    select item.ctid from backfills as job join backfill_ticks as item on item.backfill_id = job.id
     where job.finished_at < statement_timestamp() - audit_retention
       and not exists (select from job_runs where id = item.run_id)
     limit delete_expired.count for update of item skip locked));
  get diagnostics gone = row_count; total := total + gone;
  delete from backfills where ctid = any (array(
    select job.ctid from backfills as job
     where job.finished_at < statement_timestamp() - audit_retention
       and not exists (select from backfill_ticks where backfill_id = job.id)
     order by job.id limit delete_expired.count for update skip locked));
  get diagnostics gone = row_count; total := total + gone;
  delete from job_definitions where ctid = any (array(                 -- of applications; a declared one keeps its row
    select def.ctid from job_definitions as def
     where def.removed_at < statement_timestamp() - history_retention and def.source = 'app'
       and not exists (select from job_runs where definition_id = def.id)
       and not exists (select from backfills where definition_id = def.id)
     order by def.removed_at limit delete_expired.count for update skip locked));
  get diagnostics gone = row_count; total := total + gone;
  delete from worker_types where ctid = any (array(
    select ctid from worker_types where last_known_at < statement_timestamp() - interval '40 days'   -- a pool may wake once a month
     limit delete_expired.count for update skip locked));
  delete from definition_changes where ctid = any (array(              -- without an operator, these are most of the expired rows
    select ctid from definition_changes where changed_at < statement_timestamp() - interval '1 hour'
     limit delete_expired.count * 100 for update skip locked));
  get diagnostics gone = row_count; total := total + gone;
  if dead_retention is not null then
    select array_agg(id) into old_dead
      from (select id from job_runs where dead_at < statement_timestamp() - dead_retention
             order by dead_at limit delete_expired.count for update skip locked) as locked;
    perform finish_runs(old_dead, 'dead', 'DeadRetention') where old_dead is not null;
    total := total + coalesce(cardinality(old_dead), 0);
  end if;
  if total = 0 then
    update installation set expired_deleted_at = statement_timestamp()
     where only_row in (select only_row from installation for no key update skip locked);
  end if;
  return total;
end
$$;
