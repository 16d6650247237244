-- for: operator
-- Ends a pause. False: it was not paused.
-- Example:
--   select wakeboard.resume('queue:default');

create or replace function wakeboard.resume(scope text)
returns boolean language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp
set lock_timeout = '2s'
as $$
#variable_conflict use_column
begin
  delete from pauses where scope = resume.scope;
  if not found then
    return false;
  end if;
  insert into definition_changes (definition_id)
  select id from job_definitions
   where removed_at is null and resume.scope in ('all', 'queue:' || queue, 'schedule:' || id);
  perform pg_notify('wakeboard', '');
  return true;
end
$$;
