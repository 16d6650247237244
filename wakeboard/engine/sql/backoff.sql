-- for: worker, operator, client, viewer
-- The delay before the next attempt of a run that has made `attempts` attempts: min(cap_s, base_s * 2^(attempts - 1)) seconds, or
-- min(cap_s, base_s) if the strategy is 'fixed', times a random factor in [0.5, 1.0], so that runs that failed together are not retried
-- together. The functions that store a run or a schedule refuse a cap_s below base_s.
-- Example:
--   select wakeboard.backoff('exponential', 10, 3600, 3);

create or replace function wakeboard.backoff(
  strategy wakeboard.backoff_strategy, base_s integer, cap_s integer, attempts integer)
returns interval language sql volatile
as $$
  select make_interval(secs => least(
           cap_s, base_s * case strategy when 'fixed' then 1 else 2 ^ (least(greatest(attempts, 1), 41) - 1) end) * (0.5 + random() / 2))
$$;
