-- internal (called by cancel, retry, discard and revoke)
-- Writes an audit row for each of the runs `ids` that has one of `statuses`, before the caller changes it. A running run that was asked to
-- stop before gets no second row for that. The caller has locked the runs. Raises 22023 for an invalid actor or source, also without runs.

create or replace function wakeboard.audit_runs(
  action text, ids bigint[], statuses wakeboard.run_status[], answer text, reason text, actor text, source text, bulk_action_id bigint)
returns void language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
begin
  insert into audit_log (actor, source, action, run_id, run_uuid, definition_id, schedule, reason, detail, bulk_action_id)
  select coalesce(audit_runs.actor, session_user), audit_runs.source, audit_runs.action, run.id, run.uuid, run.definition_id, run.schedule,
         coalesce(left(audit_runs.reason, 200), ''),
         jsonb_build_object('answer', audit_runs.answer, 'status_before', run.status), audit_runs.bulk_action_id
    from job_runs as run
   where run.id = any (ids) and run.status = any (statuses) and (audit_runs.answer <> 'requested' or run.cancel_requested_at is null)
   order by run.id;
end
$$;
