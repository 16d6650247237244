-- for: operator
-- Confirms the pending removal of schedules of `source`. The confirmation is valid for an hour, for that list only. Returns the number of
-- schedules that it removes; null if no removal is pending.
-- Example:
--   select wakeboard.confirm_removal('file:shop');

create or replace function wakeboard.confirm_removal(source text)
returns integer language sql security definer
set search_path = pg_catalog, wakeboard, pg_temp
set lock_timeout = '2s'
as $$
  update pending_removals set confirmed_at = statement_timestamp() where source = confirm_removal.source returning count
$$;
