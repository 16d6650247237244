-- internal (called by enqueue_due_ticks, create_dependent_runs and update_circuits)
-- Opens and closes the circuits of those schedules `ids` that have suspend_after_dead (current_circuit), and returns those whose circuit is
-- open. The caller has locked the schedules.

create or replace function wakeboard.check_circuits(ids bigint[])
returns bigint[] language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
declare
  former job_definitions;
  def job_definitions;
  opened bigint[] := '{}';
begin
  for former in
    select * from job_definitions where id = any (ids) and suspend_after_dead is not null order by id
  loop
    def := current_circuit(former);
    if def.circuit_opened_at is not null then
      opened := opened || def.id;
    end if;
    if (def.circuit_opened_at, def.circuit_probe_at, def.circuit_probe_id, def.circuit_probes)
       is distinct from (former.circuit_opened_at, former.circuit_probe_at, former.circuit_probe_id, former.circuit_probes) then
      update job_definitions
         set dead_counted_from = def.dead_counted_from, circuit_opened_at = def.circuit_opened_at,
             circuit_probe_at = def.circuit_probe_at, circuit_probe_id = def.circuit_probe_id, circuit_probes = def.circuit_probes
       where id = def.id;
      insert into definition_changes (definition_id) values (def.id);
    elsif def.dead_counted_from is distinct from former.dead_counted_from then
      update job_definitions set dead_counted_from = def.dead_counted_from where id = def.id;
    end if;
  end loop;
  return opened;
end
$$;
