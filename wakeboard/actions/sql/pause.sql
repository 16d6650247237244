-- for: operator
-- Pauses 'all', 'queue:NAME', 'schedule:ID' or 'backfill:ID' until `resume`, or until a time within 366 days, at which maintenance resumes
-- it; a backfill has no such time. Runs of a paused queue are not claimed; a paused schedule
-- creates no runs; of a paused backfill no run starts, also no retry. Runs that are running continue; of a backfill, if the
-- concurrencyPolicy of its schedule is not Allow, also with their retries. After `resume`, catchUp decides about the missed ticks, as after
-- any outage. False: it was paused already, or is a backfill that has ended. The first 200 characters of `reason` are stored. Writes an
-- audit row unless it was paused already (see Audit). Raises 55P03 if another transaction has locked a run of the backfill: nothing was
-- done, try again.
-- Example:
--   select wakeboard.pause('queue:default', 'the mail server is being moved');
--   select wakeboard.pause('queue:default', 'maintenance of the bank', until => now() + interval '2 hours');

create or replace function wakeboard.pause(
  scope wakeboard.pause_scope, reason text default '',
  actor wakeboard.audit_actor default null, source wakeboard.acting_program default 'sql',
  until timestamptz default null)
returns boolean language plpgsql security definer
set enable_seqscan = off set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  job backfills;
begin
  if pause.until not between statement_timestamp() and statement_timestamp() + interval '366 days'
     or pause.until is not null and pause.scope like 'backfill:%' then
    perform refuse_argument('until', pause.until::text, 'a time within the next 366 days; a backfill is paused until it is resumed');
  end if;
  if pause.scope like 'schedule:%'
     and not exists (select from job_definitions where id = substr(pause.scope, 10)::bigint and removed_at is null) then
    perform refuse_argument('scope', pause.scope, 'the id of a schedule that exists, from wakeboard.job_definitions');
  end if;
  if pause.scope like 'backfill:%' then
    perform require_read_committed('pause');
    update backfills set paused_at = statement_timestamp()
     where id = substr(pause.scope, 10)::bigint and finished_at is null and paused_at is null returning * into job;
  else
    insert into pauses (scope, reason, until)
    values (pause.scope, coalesce(left(pause.reason, 200), ''), pause.until) on conflict do nothing;
  end if;
  if not found then
    perform wait_for_standby();
    return false;
  end if;
  if job.id is not null then
    insert into job_limits (key, max_running) values (pause.scope, 0)
    on conflict on constraint job_limits_pkey do update set max_running = 0;
    perform lock_runs(array(select unfinished_backfill_runs(job.id)));
    update job_runs as run set limit_key = pause.scope
     where run.id in (select unfinished_backfill_runs(job.id)) and run.locked_by = 0 and run.limit_key like 'schedule:%';
  end if;
  insert into definition_changes (definition_id)
  select id from job_definitions
   where removed_at is null and id = case when pause.scope like 'schedule:%' then substr(pause.scope, 10)::bigint end
  union all
  select id from job_definitions
   where removed_at is null and source < 'app' and pause.scope in ('all', 'queue:' || queue)
  union all
  select id from job_definitions
   where removed_at is null and source > 'app' and pause.scope in ('all', 'queue:' || queue);
  insert into audit_log (actor, source, action, scope, definition_id, schedule, reason, detail)
  select coalesce(pause.actor, session_user), pause.source, 'pause', pause.scope, coalesce(def.id, job.definition_id),
         coalesce(job.schedule, def.namespace || '/' || def.name), coalesce(left(pause.reason, 200), ''),
         case when job.id is not null then jsonb_build_object('total', job.total, 'created', job.created) else '{}' end
           || case when pause.until is not null then jsonb_build_object('until', pause.until) else '{}' end
    from (values (true)) as one
    left join job_definitions as def on def.id = substring(pause.scope from '^schedule:([0-9]+)$')::bigint;
  return true;
exception when lock_not_available then
  perform refuse_locked();
end
$$;
