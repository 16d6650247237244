-- internal (called by acquire_leadership, claim_alert_delivery and lease_runs)
-- By how much a new lease advances the epoch of its run, and a new leadership the term of its source: 1 to 2^31, at random. Were they
-- counted by one, a database that has lost its last commits (the failover to an asynchronous standby, a restore) would give numbers that
-- it has given before, and an outcome, step or effect of a lost lease would be accepted for another run of the same id. Random numbers
-- repeat with a probability of one in two thousand million. They still grow, and pass 2^53 after eight million leases of one run,
-- or after the database went back in time 511 times (void_leases).
-- A claim draws one step for all its runs: write `(select lease_step())`.

create or replace function wakeboard.lease_step()
returns bigint language sql volatile security definer
as $$
  select 1 + floor(random() * 2147483648)::bigint
$$;
