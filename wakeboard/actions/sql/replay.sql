-- for: operator
-- Creates a new run, due now, from each finished one (succeeded, cancelled, or dead and discarded). It has a new uuid, so its effects
-- happen again, but for those with `once="forever"`. A run of a schedule gets the limit keys that its schedule has now. `payload` null: the
-- payload of the finished run. The new run reads the results of the same runs (run_results). If it waited for runs and was cancelled, the
-- new run waits for those that have not succeeded; it is refused if one of them was cancelled or discarded: replay that one first. The
-- answer for each id: 'queued' with the new run's id, or 'refused: …'. Writes an audit row for each new run (see Audit).
-- Example:
--   select * from wakeboard.replay('{1}');

create or replace function wakeboard.replay(
  ids wakeboard.id_array, payload jsonb default null, reason text default '', actor wakeboard.audit_actor default null,
  source wakeboard.acting_program default 'sql', bulk_action_id bigint default null)
returns table (id bigint, answer text, new_id bigint) language plpgsql security definer
set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  wanted bigint;
  past record;                         -- a row type would wait for the table before the lock timeout can be handled
  def job_definitions;
  made bigint;
  awaited bigint[];                    -- runs that have not ended
  lost bigint;                         -- one that will not succeed
  checked_payload run_payload := payload;
begin
  -- In one order, so that two calls, or a call and a sync, do not wait for each other.
  perform from job_definitions as locked
    where locked.id = any (array(select known.definition_id from job_run_history as known where known.id = any (ids)))
    order by locked.id for share;
  perform from job_runs as parent        -- none of them ends before the new runs are visible
    where parent.id = any (array(select edge.parent_id from run_dependencies as edge where edge.run_id = any (ids) and not edge.succeeded))
    order by parent.id for no key update;
  perform from run_dependencies as edge
    where not edge.succeeded
      and edge.parent_id = any (array(
        select known.id from job_run_history as known where known.id = any (ids) and known.status <> 'succeeded'))
    order by edge.run_id, edge.place, edge.parent_id for update;
  foreach wanted in array ids::bigint[] loop
    select * into past from job_run_history as h where h.id = wanted limit 1;
    if not found then
      return query select wanted, coalesce(
        (select 'refused: the run is ' || status::text
                || case status when 'dead' then '; retry it, or discard it and then replay it' else '; replay takes finished runs' end
           from job_runs as run where run.id = wanted),
        'refused: there is no such run'), null::bigint;
      continue;
    elsif past.status = 'skipped' then
      return query select wanted, 'refused: these ticks were skipped and never ran; use run-now', null::bigint;
      continue;
    end if;
    select array_agg(edge.parent_id) filter (where parent.id is not null),
           min(edge.parent_id) filter (where parent.id is null and ended.status is distinct from 'succeeded')
      into awaited, lost
      from run_dependencies as edge left join job_runs as parent on parent.id = edge.parent_id
      left join lateral (select status from job_run_history where job_run_history.id = edge.parent_id limit 1) as ended on parent.id is null
     where edge.run_id = past.id and not edge.succeeded;
    if lost is not null then
      return query select wanted, format('refused: it waits for run %s, which will not succeed; replay that one first', lost), null::bigint;
      continue;
    end if;
    select * into def from job_definitions where job_definitions.id = past.definition_id for share;   -- its present policy applies
    insert into job_runs (
      scheduled_for, trigger, backoff_strategy, backoff_base_s, backoff_cap_s, timeout_s, max_attempts, priority, queue, job_type,
      payload, definition_id, definition_generation, schedule, limit_key, shared_limit_key, has_dependents)
    values (
      past.scheduled_for, 'replay', past.backoff_strategy, past.backoff_base_s, past.backoff_cap_s, past.timeout_s,
      past.max_attempts, past.priority, past.queue, past.job_type, coalesce(checked_payload, past.payload), past.definition_id,
      past.definition_generation,
      past.schedule,
      case when def.id is null then past.limit_key when def.concurrency_policy = 'Allow' then def.limit_key else 'schedule:' || def.id end,
      case when def.concurrency_policy <> 'Allow' then def.limit_key end, def.has_dependents)
    returning job_runs.id into made;
    insert into run_dependencies (run_id, place, parent_id, succeeded)
    select made, edge.place, edge.parent_id, edge.parent_id = any (awaited) is not true
      from run_dependencies as edge where edge.run_id = past.id;
    update job_runs as run set run_at = '2999-12-31 00:00+00' where run.id = made and awaited is not null;
    update run_dependencies as edge set parent_id = made
     -- else `enqueue_dependents` will let them start
     where edge.parent_id = past.id and not edge.succeeded and past.status <> 'succeeded';
    if found then
      update job_runs as run set has_dependents = true where run.id = made;
    end if;
    insert into definition_changes (definition_id) select past.definition_id where past.definition_id is not null;
    insert into audit_log (actor, source, action, run_id, run_uuid, new_run_id, definition_id, schedule, reason, detail, bulk_action_id)
    values (coalesce(actor, session_user), source, 'replay', past.id, past.uuid, made, past.definition_id, past.schedule,
            coalesce(left(replay.reason, 200), ''),
            jsonb_build_object('answer', 'queued', 'status_before', past.status,
                               'other_payload', checked_payload <> past.payload is true),
            replay.bulk_action_id);
    return query select wanted, 'queued', made;
  end loop;
exception when lock_not_available then
  perform refuse_locked();
end
$$;
