-- for: worker, operator
-- Deletes, at most `count` rows of each kind: attempts, steps, effects, dependencies, and ticks of schedules with dependencies, older than
-- `history_retention` whose run is neither live nor in history, and the names of workers that ended 31 days before that; idempotency keys
-- whose run ended more than `key_retention` ago; keys of effects once for ever that happened longer ago than the installation's retention
-- for them; unique windows that have ended; unused limits that no administrator set; action tokens older than 90 days, but not the newest
-- one of an action of a schedule that is not removed; audit rows, bulk actions and finished backfills older than the installation's
-- retention for them; the lists of runs of finished bulk actions older than `history_retention`; job types that no worker has known for 40
-- days; entries of definition_changes older than an hour; schedules of applications that were removed longer than `history_retention` ago,
-- and their pauses. Ends bulk actions older than `history_retention`. Discards dead runs older than `dead_retention`, if the installation
-- has a retention for them. A retention that is null, or shorter than the installation's (set_retention), counts as the installation's.
-- Trace contexts are deleted like attempts. Ticks that others still wait for, or that wait, are kept as long as audit rows: those that the
-- next tick of a schedule with `ticks: All` needs, those that wait for a retry of another run, and those of paused schedules. Returns how
-- many rows it deleted: call it again until it returns 0. For an hour after that it deletes nothing and returns null, unless `always`.
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
  expired record;
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
  update bulk_actions set cancelled_at = statement_timestamp(), finished_at = statement_timestamp()
   where id = any (array(
     select id from bulk_actions where finished_at is null and created_at < statement_timestamp() - history_retention
      for no key update skip locked));
  -- Of each table the expired rows, `side`. $1: the time before which history has expired; $2: audit rows; $3: keys; $4: effects once for
  -- ever, which is null if none expires; $5: now.
  for expired in
    -- What belongs to a run goes when the run has gone.
    select name, format('from %1$I as side where side.%2$I < $1 and not exists (select from job_runs where id = side.run_id)
                           and not exists (select from job_run_history where id = side.run_id) order by side.%2$I', name, since) as rows
      from (values ('job_attempts', 'ended_at'), ('job_steps', 'started_at'), ('job_effects', 'started_at'),
                   ('job_trace_contexts', 'created_at'), ('run_dependencies', 'created_at')) as of_run (name, since)
    union all values
    ('job_keys', 'from job_keys as side
       where side.created_at < $3 and not exists (select from job_runs where id = side.run_id)
         and not exists (select from job_run_history as past where past.id = side.run_id and past.finished_at > $3)
       order by side.created_at'),
    ('job_forever_effects', 'from job_forever_effects as side
       where side.finished_at < $4 and not exists (select from job_runs where id = side.run_id) order by side.finished_at'),
    ('job_unique_keys', 'from job_unique_keys as side where unique_until <= $5 order by unique_until'),
    ('past_workers', $of$from past_workers as side           -- an attempt may take 31 days
       where ended_at < $1 - interval '31 days' order by ended_at$of$),
    ('schedule_ticks', $of$from schedule_ticks as side
       where side.recorded_at < $1
         and not exists (select from job_runs where id = side.run_id)
         and not exists (select from job_run_history where id = side.run_id)      -- its replay would run the tick again
         and (side.waits_for is null or side.recorded_at < $2)
         and (side.recorded_at < $2
              or not exists (             -- a tick of a schedule that needs all ticks, and waits or is to come
                   select from schedule_dependencies as edge
                    where edge.parent_id = side.definition_id and edge.ticks = 'All'
                      and (select own.waits_for is null from schedule_ticks as own
                            where own.definition_id = edge.definition_id and own.scheduled_for >= side.scheduled_for
                            order by own.scheduled_for limit 1) is not true)
                 and not exists (             -- a tick that waits for a retry of another run
                   select from schedule_dependencies as edge
                     join schedule_dependencies as other on other.definition_id = edge.definition_id
                     join schedule_ticks as blocked
                       on blocked.definition_id = other.parent_id and blocked.scheduled_for = side.scheduled_for
                     join job_runs as run on run.id = blocked.run_id
                    where edge.parent_id = side.definition_id
                      and not exists (select from schedule_ticks as own
                                       where own.definition_id = edge.definition_id and own.scheduled_for = side.scheduled_for)))
       order by side.recorded_at$of$),
    ('job_limits', $of$from job_limits as side
       where not is_explicit and rate_count is null and created_at < $5 - interval '1 day' and paused_until < $5
         and not exists (select from job_runs where limit_key = side.key)
         and (key !~ '^schedule:'
              or not exists (select from job_definitions as def
                              where def.removed_at is null
                                and def.id = case when side.key ~ '^schedule:[0-9]{1,18}$'
                                                  then substring(side.key from 10)::bigint end))$of$),
    ('action_tokens', $of$from action_tokens as side      -- the newest one may still be on the object, as an annotation
       where requested_at < $5 - interval '90 days'
         and (exists (select from action_tokens as newer
                       where newer.source = side.source and newer.namespace = side.namespace and newer.name = side.name
                         and newer.action = side.action and newer.requested_at > side.requested_at)
              or not exists (select from job_definitions as def
                              where def.source = side.source and def.namespace = side.namespace and def.name = side.name
                                and def.removed_at is null))
       order by requested_at$of$),
    ('audit_log', 'from audit_log as side where at < $2 order by at'),
    ('bulk_action_runs', 'from bulk_actions as bulk join bulk_action_runs as side on side.bulk_action_id = bulk.id
       where bulk.finished_at is not null and bulk.created_at < $1'),
    ('bulk_actions', 'from bulk_actions as side
       where created_at < $2 and not exists (select from bulk_action_runs where bulk_action_id = side.id) order by id'),
    ('backfill_ticks', 'from backfills as job join backfill_ticks as side on side.backfill_id = job.id
       where job.finished_at < $2 and not exists (select from job_runs where id = side.run_id)'),
    ('backfills', 'from backfills as side
       where finished_at < $2 and not exists (select from backfill_ticks where backfill_id = side.id) order by id'),
    ('pauses', $of$from pauses as side join job_definitions as def on side.scope = 'schedule:' || def.id
       where def.removed_at < $1 and def.source = 'app' and not exists (select from job_runs where definition_id = def.id)
         and not exists (select from backfills where definition_id = def.id)
       order by def.removed_at$of$),     -- and then, in the same order, these schedules
    ('job_definitions', $of$from job_definitions as side     -- of applications; a declared one keeps its row
       where removed_at < $1 and source = 'app' and not exists (select from job_runs where definition_id = side.id)
         and not exists (select from backfills where definition_id = side.id)
       order by removed_at$of$)
  loop
    execute format('delete from %I where ctid = any (array(select side.ctid %s limit $6 for update of side skip locked))',
                   expired.name, expired.rows)
      using statement_timestamp() - history_retention, statement_timestamp() - audit_retention, statement_timestamp() - key_retention,
            statement_timestamp() - effect_retention, statement_timestamp(), delete_expired.count;
    get diagnostics gone = row_count; total := total + gone;
  end loop;
  delete from worker_types where ctid = any (array(
    select ctid from worker_types where last_known_at < statement_timestamp() - interval '40 days'   -- a pool may wake once a month
     limit delete_expired.count for update skip locked));
  get diagnostics gone = row_count; total := total + gone;
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
