-- internal (called by backlog, claim_limited and claim_quarantined)
-- How many runs may start now by the rate limit in this row of job_limits; 1,000,000 without one. To start them, lock the row first.
-- The rule is the generic cell rate algorithm (GCRA; ITU-T I.371): each start moves next_unit_at by one unit's time (`advance_rate`), and
-- it may be at most rate_burst units ahead of the clock. So in any t seconds at most rate_burst + t * rate_count / rate_period_s runs
-- start, in whichever order concurrent claims are committed.

create or replace function wakeboard.free_units(bound wakeboard.job_limits)
returns bigint language sql stable security definer
as $$
  select case when (bound).paused_until > statement_timestamp()
               and (bound).paused_until <= statement_timestamp() + interval '1 day' then 0   -- else the clock was set back
              when (bound).rate_count is null then 1000000
              else greatest(0, floor(
                (bound).rate_burst + 0.000001
                - extract(epoch from advance_rate(bound, 0) - statement_timestamp())
                  * (bound).rate_count / (bound).rate_period_s)) end::bigint
$$;
