-- for: viewer, operator
-- The next_unit_at of this row of job_limits after `units` more units were taken: at most an hour, or rate_burst units, after now. The
-- bound also holds if the clock was set back, or the rate was raised. A stored time of more than twice that means that the clock was set
-- back by more than that: it counts as past, or no run would start until the clock is there again.

create or replace function wakeboard.advance_rate(bound wakeboard.job_limits, units bigint)
returns timestamptz language sql stable security definer
as $$
  select least(
    case when (bound).next_unit_at > statement_timestamp() + 2 * longest then statement_timestamp()
         else greatest((bound).next_unit_at, statement_timestamp()) end
      + make_interval(secs => least(ceil(1e6 * units * (bound).rate_period_s / (bound).rate_count) / 1e6, 1e8)),
    statement_timestamp() + longest)
    from make_interval(secs => greatest(3600, 1e0 * (bound).rate_burst * (bound).rate_period_s / (bound).rate_count)) as longest
$$;
