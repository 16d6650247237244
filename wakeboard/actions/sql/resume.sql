-- for: operator
-- Ends a pause (see `pause`), and with schedule:ID also closes the circuit of the schedule (suspend_after_dead): it counts dead runs from
-- zero. False: it was not paused and its circuit was not open. Otherwise it writes an audit row (see Audit). Raises 55P03 if another
-- transaction has locked the schedule or a run of the backfill: nothing was done, try again.
-- Example:
--   select wakeboard.resume('queue:default');

create or replace function wakeboard.resume(
  scope wakeboard.pause_scope, reason text default '',
  actor wakeboard.audit_actor default null, source wakeboard.acting_program default 'sql')
returns boolean language plpgsql security definer
set enable_seqscan = off set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  ended pauses;
  opened_at timestamptz;
  job backfills;
  policy text;
begin
  if resume.scope like 'schedule:%' then
    select case when removed_at is null then circuit_opened_at end into opened_at
      from job_definitions where id = substr(resume.scope, 10)::bigint for update;
    update job_definitions set success_due_at = statement_timestamp()            -- update_expectations has left it out
     where id = substr(resume.scope, 10)::bigint and expect_success_within_s is not null
       and (removed_at is null or removed_at > updated_at);                      -- it is there, or has removed itself after its last tick
    if opened_at is not null then
      update job_definitions
         set circuit_opened_at = null, dead_counted_from = statement_timestamp(), circuit_probe_at = null, circuit_probe_id = null,
             circuit_probes = null
       where id = substr(resume.scope, 10)::bigint;
    end if;
  end if;
  if resume.scope like 'backfill:%' then
    perform require_read_committed('resume');
    update backfills set paused_at = null where id = substr(resume.scope, 10)::bigint and paused_at is not null returning * into job;
  else
    delete from pauses where scope = resume.scope returning * into ended;
  end if;
  if not found and opened_at is null then
    perform wait_for_standby();
    return false;
  end if;
  if job.id is not null then
    select concurrency_policy into policy from job_definitions where id = job.definition_id for share;
    update job_limits set max_running = job.at_once where key = resume.scope;
    perform lock_runs(array(select unfinished_backfill_runs(job.id)));
    update job_runs as run set limit_key = 'schedule:' || job.definition_id
     where run.id in (select unfinished_backfill_runs(job.id)) and policy <> 'Allow';
    perform create_backfill_runs(job.id);
  end if;
  insert into definition_changes (definition_id)
  select id from job_definitions
   where removed_at is null and id = case when resume.scope like 'schedule:%' then substr(resume.scope, 10)::bigint end
  union all
  select id from job_definitions
   where removed_at is null and source < 'app' and resume.scope in ('all', 'queue:' || queue)
  union all
  select id from job_definitions
   where removed_at is null and source > 'app' and resume.scope in ('all', 'queue:' || queue);
  insert into audit_log (actor, source, action, scope, definition_id, schedule, reason, detail)
  select coalesce(resume.actor, session_user), resume.source, 'resume', resume.scope, coalesce(def.id, job.definition_id),
         coalesce(job.schedule, def.namespace || '/' || def.name), coalesce(left(resume.reason, 200), ''),
         case when ended.scope is not null then jsonb_build_object('paused_at', ended.paused_at, 'pause_reason', ended.reason) else '{}' end
           || case when opened_at is not null then jsonb_build_object('circuit_opened_at', opened_at) else '{}' end
           || case when job.id is not null then jsonb_build_object('total', job.total, 'created', job.created) else '{}' end
    from (values (true)) as one
    left join job_definitions as def on def.id = substring(resume.scope from '^schedule:([0-9]+)$')::bigint;
  perform pg_notify('wakeboard', '');
  return true;
exception when lock_not_available then
  perform refuse_locked();
end
$$;
