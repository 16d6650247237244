-- internal (called by enqueue and unique_run)
-- Whether the caller may see, cancel and replace a run that this role enqueued with a key: as this role, or as a member of it.

create or replace function wakeboard.may_use_run_of(created_by text)
returns boolean language plpgsql stable security definer
as $$
declare
  caller constant text := case current_setting('role') when 'none' then session_user::text else current_setting('role') end;
begin
  return created_by = caller or coalesce(pg_has_role(caller, to_regrole(quote_ident(created_by)), 'usage'), false);
end
$$;
