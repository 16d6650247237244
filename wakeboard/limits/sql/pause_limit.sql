-- for: worker
-- Starts no run with the limit key of this run for `pause_s` seconds, at most a day; running runs go on. A pause that ends later stays. The
-- key of a schedule's concurrencyPolicy is not paused.
-- Raises WB001 if the lease is lost, and 55P03 at once if another transaction has locked the limit: try again soon.

create or replace function wakeboard.pause_limit(
  worker wakeboard.worker_number, run_id wakeboard.run_number, epoch wakeboard.lease_number, pause_s wakeboard.limit_pause_s)
returns void language plpgsql security definer
set lock_timeout = '200ms'
as $$
declare
  limit_key text := leased_limit_key(worker, run_id, epoch);
begin
  perform from job_limits where key = limit_key and key not like 'schedule:%' for no key update nowait;
  update job_limits as bound
     set paused_until = greatest(least(paused_until, statement_timestamp() + interval '1 day'),
                                 statement_timestamp() + make_interval(secs => pause_s))
   where bound.key = limit_key and bound.key not like 'schedule:%';
end
$$;
