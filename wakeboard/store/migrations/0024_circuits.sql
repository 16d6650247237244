-- spec.suspendAfterDead: a schedule whose runs die one after another creates no more; its circuit is open.
-- locks: job_definitions

alter table job_definitions
  add column suspend_after_dead integer,
  add column dead_counted_from timestamptz,
  add column circuit_opened_at timestamptz,
  add column circuit_probe_at timestamptz,
  add column circuit_probe_id bigint,
  add column circuit_probes integer,
  add constraint suspend_after_dead_is_1_to_100 check (suspend_after_dead between 1 and 100),
  add constraint only_an_open_circuit_has_probes check (
    case when circuit_opened_at is null then num_nonnulls(circuit_probe_at, circuit_probe_id, circuit_probes) = 0
         else num_nonnulls(suspend_after_dead, circuit_probe_at, circuit_probes) = 3 end);
comment on column job_definitions.suspend_after_dead is 'so many runs of ticks, dead one after another, open the circuit; null: never';
comment on column job_definitions.dead_counted_from is 'runs that died until then do not count: a run succeeded, or a user resumed the schedule; null: all count';
comment on column job_definitions.circuit_opened_at is 'since when ticks create no runs; null: the circuit is closed';
comment on column job_definitions.circuit_probe_at is 'the first tick from then on becomes a run, the probe';
comment on column job_definitions.circuit_probe_id is 'the probe, until it has ended; null: there is none';
comment on column job_definitions.circuit_probes is 'how many probes have died';

create index job_definitions_breakers on job_definitions (id) where suspend_after_dead is not null and removed_at is null;
create index job_definitions_open_circuits on job_definitions (id) where circuit_opened_at is not null and removed_at is null;
