-- for: worker, operator
-- Opens and closes the circuits of schedules (suspend_after_dead) that may have changed: closed ones of which a run died in the last five
-- minutes, and open ones whose probe has ended or of which a run has succeeded; it looks at 1,000 of each at most, and locks only these
-- schedules. Their next tick does the same, so this only makes the change visible sooner. Waits for no lock. Returns how many circuits are
-- open, of 1,000 at most. A repeat changes nothing.
-- Example:
--   select wakeboard.update_circuits();

create or replace function wakeboard.update_circuits()
returns integer language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
set lock_timeout = '2s'
as $$
declare
  changed bigint[];
begin
  perform require_read_committed('update_circuits');
  if not exists (select from job_definitions where suspend_after_dead is not null and removed_at is null) then
    return 0;                                -- nearly always
  end if;
  changed := array(
    select open.id
      from (select id, circuit_probe_id, dead_counted_from, last_tick_at from job_definitions
             where circuit_opened_at is not null and removed_at is null limit 1000) as open
     where open.circuit_probe_id is not null
       and not exists (select from job_runs as run where run.id = open.circuit_probe_id and run.status < 'dead' offset 0)
        or exists (select from job_run_history as past                     -- as in check_circuits
                    where past.definition_id = open.id and past.status = 'succeeded' and past.trigger = 'tick'
                      and past.finished_at > greatest(open.dead_counted_from, open.last_tick_at - interval '1 hour')));
  perform check_circuits(array(
    select def.id from job_definitions as def
     where def.suspend_after_dead is not null and def.removed_at is null
       and (def.circuit_opened_at is null or def.id = any (changed))
       and def.id = any (
         changed
         || array(select distinct run.definition_id
                    from (select definition_id from job_runs
                           where dead_at > statement_timestamp() - interval '5 minutes' and definition_id is not null and trigger = 'tick'
                           order by dead_at desc limit 10000) as run
                   limit 1000))
     order by def.id
       for update of def skip locked));
  return (select count(*) from (select from job_definitions where circuit_opened_at is not null and removed_at is null limit 1000) as open);
end
$$;
