-- for: operator
-- Creates a run of a schedule, due now, also if it is suspended or paused, and applies its concurrencyPolicy. Returns the run's id and
-- 'queued', or null and 'refused: …' (Forbid: a run of it is unfinished; Replace: another transaction has locked a run that it replaces).
-- `payload` null: the payload of the schedule. Writes an audit row for the run (see Audit).
-- Example:
--   select * from wakeboard.run_now(1);

create or replace function wakeboard.run_now(
  definition wakeboard.definition_number, payload jsonb default null, reason text default '', actor wakeboard.audit_actor default null,
  source wakeboard.acting_program default 'sql')
returns table (id bigint, answer text) language plpgsql security definer
set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  def job_definitions;
  old bigint[];
  locked bigint;
  made job_runs;
  checked_payload run_payload := payload;
begin
  perform require_read_committed('run_now');
  select * into def from job_definitions where job_definitions.id = definition and removed_at is null for update;
  if not found then
    return query select null::bigint, 'refused: there is no such schedule';
    return;
  end if;
  if def.concurrency_policy = 'Forbid' and exists (
       select from job_runs as run
        where run.definition_id = def.id and run.status in ('queued', 'running', 'failed') and run.trigger <> 'backfill') then
    return query select null::bigint, 'refused: concurrencyPolicy is Forbid and a run of it is unfinished';
    return;
  end if;
  if def.concurrency_policy = 'Replace' then
    old := lock_runs(array(
      select run.id from job_runs as run
       where run.definition_id = def.id and run.status in ('queued', 'running', 'failed') and run.trigger <> 'backfill'));
    select min(run.id) into locked from job_runs as run
     where run.definition_id = def.id and run.status in ('queued', 'running', 'failed') and run.trigger <> 'backfill'
       and run.id <> all (old);
    if locked is not null then
      return query select null::bigint, format('refused: another transaction has locked run %s; try again', locked);
      return;
    end if;
    perform replace_runs(array[def.id]);
  end if;
  insert into definition_changes (definition_id) values (def.id);
  insert into job_runs as run (
    trigger, backoff_strategy, backoff_base_s, backoff_cap_s, timeout_s, max_attempts, priority, queue, job_type, payload,
    definition_id, definition_generation, schedule, limit_key, shared_limit_key)
  values (
    'manual', def.backoff_strategy, def.backoff_base_s, def.backoff_cap_s, def.timeout_s, def.max_attempts, def.priority,
    def.queue, def.job_type, coalesce(checked_payload, def.payload), def.id, def.generation, def.namespace || '/' || def.name,
    case def.concurrency_policy when 'Allow' then def.limit_key else 'schedule:' || def.id end,
    case when def.concurrency_policy <> 'Allow' then def.limit_key end)
  returning * into made;
  insert into audit_log (actor, source, action, run_id, run_uuid, definition_id, schedule, reason, detail)
  values (coalesce(actor, session_user), source, 'run_now', made.id, made.uuid, def.id, made.schedule,
          coalesce(left(run_now.reason, 200), ''),
          jsonb_build_object('answer', 'queued', 'other_payload', checked_payload <> def.payload is true,
                             'replaced', coalesce(cardinality(old), 0)));
  return query select made.id, 'queued';
exception when lock_not_available then
  perform refuse_locked();
end
$$;
