-- for: worker, operator
-- Ends the pauses whose time is over (see `pause`), each as `resume` does. What another transaction has locked waits for the next
-- call. Returns how many it ended.
-- Example:
--   select wakeboard.end_pauses();

create or replace function wakeboard.end_pauses()
returns integer language plpgsql security definer
set lock_timeout = '2s'
as $$
declare
  over record;
  ended integer := 0;
begin
  for over in select scope, substring(scope from '^schedule:([0-9]+)$')::bigint as definition_id
                from pauses where until <= statement_timestamp() order by scope loop
    begin
      perform from job_definitions where id = over.definition_id for update skip locked;  -- before the pause, as `resume` does
      continue when over.definition_id is not null and not found;
      perform from pauses where scope = over.scope and until <= statement_timestamp() for update skip locked;
      continue when not found;
      ended := ended + resume(over.scope, 'its time is over', 'wakeboard', 'sql')::integer;
    exception when lock_not_available then
      null;
    end;
  end loop;
  return ended;
end
$$;
