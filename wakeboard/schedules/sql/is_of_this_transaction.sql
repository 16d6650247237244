-- internal (called by edit_schedule)
-- Whether the row of this schedule, as a statement sees it now, was written by this transaction, or by a savepoint of it: only these are
-- seen while their transaction is open.

create or replace function wakeboard.is_of_this_transaction(id bigint)
returns boolean language plpgsql security definer
as $$
begin
  return (
    select pg_xact_status((top + ((seen.xmin::text::bigint - top + 2147483648) & 4294967295) - 2147483648)::text::xid8) = 'in progress'
      from job_definitions as seen, cast(pg_current_xact_id()::text as bigint) as top
     where seen.id = is_of_this_transaction.id);
end
$$;
