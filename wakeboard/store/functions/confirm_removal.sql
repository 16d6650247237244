-- for: operator
-- Says yes to the removal that is held for `source`; answers with how many schedules it removes, null: nothing is held.

create or replace function wakeboard.confirm_removal(source text)
returns integer language sql security definer
set search_path = pg_catalog, wakeboard, pg_temp
set lock_timeout = '2s'
as $$
  update pending_removals set confirmed_at = statement_timestamp() where source = confirm_removal.source returning count
$$;
