-- internal (called by acknowledge_server_changes, compare_server and note_server)
-- Has operators compute the status of all declared schedules again. Those of applications, of which there may be a million, have none.

create or replace function wakeboard.note_all_schedules()
returns void language sql volatile security definer
set enable_seqscan = off
as $$
  insert into definition_changes (definition_id)
  select id from job_definitions where removed_at is null and source < 'app'
  union all
  select id from job_definitions where removed_at is null and source > 'app'
$$;
