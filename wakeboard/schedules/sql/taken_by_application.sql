-- for: operator, viewer
-- Why a declared schedule cannot have this name: an application has a schedule with it. Null: none has.
-- Example:
--   select wakeboard.taken_by_application('shop', 'weekly-report');

create or replace function wakeboard.taken_by_application(namespace text, name text)
returns text language plpgsql stable security definer
set enable_seqscan = off set lock_timeout = '2s'
as $$
begin
  return (
    select format('the schedule %s/%s belongs to an application; write another name, or remove that one first', known.namespace, known.name)
      from job_definitions as known
     where known.namespace collate "C" = taken_by_application.namespace and known.name collate "C" = taken_by_application.name
       and known.source = 'app' and known.removed_at is null);
end
$$;
