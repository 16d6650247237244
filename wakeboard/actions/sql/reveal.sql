-- for: operator
-- Writes an audit row that says that a user was shown the values of a run's `what` (payload, result, …) that are masked because of their
-- keys, or, with `run_id` null, those of the payload of the schedule `definition`. The caller calls it before it shows them. Returns false
-- if there is no such run or schedule. The first 200 characters of `what` are stored.
-- Example:
--   select wakeboard.reveal(1, null, 'payload');

create or replace function wakeboard.reveal(
  run_id bigint, definition bigint, what text, reason text default '', actor wakeboard.audit_actor default null,
  source wakeboard.acting_program default 'sql')
returns boolean language plpgsql security definer
as $$
#variable_conflict use_column
begin
  if num_nonnulls(reveal.run_id, reveal.definition) <> 1 then
    perform refuse_argument('run_id', reveal.run_id::text, 'the id of a run, or null and the id of a schedule as definition');
  end if;
  if reveal.run_id is null then
    insert into audit_log (actor, source, action, definition_id, schedule, reason, detail)
    select coalesce(reveal.actor, session_user), reveal.source, 'reveal', def.id, def.namespace || '/' || def.name,
           coalesce(left(reveal.reason, 200), ''),
           jsonb_build_object('what', left(reveal.what, 200))
      from job_definitions as def where def.id = reveal.definition;
    return found;
  end if;
  insert into audit_log (actor, source, action, run_id, run_uuid, definition_id, schedule, reason, detail)
  select coalesce(reveal.actor, session_user), reveal.source, 'reveal', run.id, run.uuid, run.definition_id, run.schedule,
         coalesce(left(reveal.reason, 200), ''),
         jsonb_build_object('what', left(reveal.what, 200))
    from all_runs as run where run.id = reveal.run_id
   limit 1;
  return found;
end
$$;
