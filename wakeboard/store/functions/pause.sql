-- for: operator
-- Pauses 'all', 'queue:NAME' or 'schedule:ID' until `resume`. Runs of a paused queue are not claimed; a paused schedule creates no runs.
-- Runs that are running continue. After `resume`, catchUp decides about the missed ticks, as after any outage. False: it was paused already.
-- The first 200 characters of `reason` are stored.
-- Example:
--   select wakeboard.pause('queue:default', 'the mail server is being moved');

create or replace function wakeboard.pause(scope text, reason text default '')
returns boolean language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp
set lock_timeout = '2s'
as $$
#variable_conflict use_column
begin
  insert into pauses (scope, reason) values (pause.scope, left(pause.reason, 200)) on conflict do nothing;
  if not found then
    return false;
  end if;
  insert into definition_changes (definition_id)
  select id from job_definitions
   where removed_at is null and pause.scope in ('all', 'queue:' || queue, 'schedule:' || id);
  return true;
end
$$;
