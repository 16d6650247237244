-- internal (called by many functions)
-- Raises WB003 unless the transaction is READ COMMITTED: after waiting for a lock, the caller must see what the lock's holder committed. In
-- the other isolation levels, all statements of a transaction see one snapshot.

create or replace function wakeboard.require_read_committed(function_name text)
returns void language plpgsql security definer
as $$
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception using errcode = 'WB003', message = format(
      '%s must run in READ COMMITTED, and this transaction is %s: call it in another transaction',
      function_name, upper(current_setting('transaction_isolation')));
  end if;
end
$$;
