-- internal (called by enqueue, lock_parents, unique_run and wait_for_runs)
-- Whether the caller may see, cancel and replace a run that this role enqueued with a key: as this role, or as a member of it.
-- Null: whether it may name any run by its id alone, because it may read them all.

create or replace function wakeboard.may_use_run_of(created_by text)
returns boolean language plpgsql stable security definer
as $$
declare
  caller constant text := case current_setting('role') when 'none' then session_user::text else current_setting('role') end;
begin
  return case when created_by is null then has_table_privilege(caller, 'job_runs', 'select')
              else created_by = caller or coalesce(pg_has_role(caller, to_regrole(quote_ident(created_by)), 'usage'), false) end;
end
$$;
