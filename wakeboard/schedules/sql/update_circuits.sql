-- for: worker, operator
-- Opens and closes the circuits of schedules (suspend_after_dead) that may have changed: those of which a run died in the last five
-- minutes, and the open ones; at most 1,000 of each. Their next tick does the same, so this only makes the change visible sooner. Waits for
-- no lock. Returns how many of them are open. A repeat changes nothing.
-- Example:
--   select wakeboard.update_circuits();

create or replace function wakeboard.update_circuits()
returns integer language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
set lock_timeout = '2s'
as $$
declare
  mine bigint[];
begin
  perform require_read_committed('update_circuits');
  if not exists (select from job_definitions where suspend_after_dead is not null and removed_at is null) then
    return 0;                                -- nearly always
  end if;
  mine := array(
    select def.id from job_definitions as def
     where def.suspend_after_dead is not null and def.removed_at is null and def.id = any (
       array(select id from job_definitions where circuit_opened_at is not null and removed_at is null limit 1000)
       || array(select distinct run.definition_id
                  from (select definition_id from job_runs
                         where dead_at > statement_timestamp() - interval '5 minutes' and definition_id is not null and trigger = 'tick'
                         order by dead_at desc limit 10000) as run
                 limit 1000))
     order by def.id
       for update of def skip locked);
  return cardinality(check_circuits(mine));
end
$$;
