-- internal (called by create_dependent_runs and current_circuit)
-- How long the open circuit of a schedule lets no tick run after so many `probes` have died: 1 minute, doubled with each of them, up to 1
-- hour.

create or replace function wakeboard.circuit_pause(probes integer)
returns interval language sql immutable security definer
as $$
  select least(interval '1 hour', interval '1 minute' * 2 ^ least(probes, 10))
$$;
