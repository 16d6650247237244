-- for: worker, operator, client, viewer
-- How long after its `attempts`-th attempt a run is tried again: least(cap, base * 2^(attempts - 1)) seconds (fixed: base),
-- times a random factor in [0.5, 1.0], so that runs which failed together do not come back together.

create or replace function wakeboard.backoff(
  strategy wakeboard.backoff_strategy, base_s integer, cap_s integer, attempts integer)
returns interval language sql volatile
set search_path = pg_catalog, wakeboard, pg_temp
as $$
  select make_interval(secs => least(
           cap_s, base_s * case strategy when 'fixed' then 1 else 2 ^ least(attempts - 1, 40) end) * (0.5 + random() / 2))
$$;
