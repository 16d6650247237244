-- for: worker
-- Takes `units` more units of the rate limit of a run's limit key: the run's start took one. They may be more than are free. The next runs
-- of the key then wait for longer, at most an hour or rate_burst units. Without a rate limit it does nothing. If the reply is lost and the
-- caller repeats the call, the units may be taken twice. Raises WB001 if the lease is lost, and 55P03 at once if another transaction has
-- locked the limit: try again soon.

create or replace function wakeboard.consume(
  worker wakeboard.worker_number, run_id wakeboard.run_number, epoch wakeboard.lease_number, units wakeboard.unit_count)
returns void language plpgsql security definer
set lock_timeout = '200ms'
as $$
declare
  limit_key text := leased_limit_key(worker, run_id, epoch);
begin
  perform from job_limits where key = limit_key and rate_count is not null for no key update nowait;
  if found then                            -- the caller waits, not the connection, which other runs use, too
    update job_limits as bound set next_unit_at = advance_rate(bound, units) where bound.key = limit_key and rate_count is not null;
  end if;
end
$$;
