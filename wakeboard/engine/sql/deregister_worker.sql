-- for: worker
-- Moves a worker that stops from `workers` to `past_workers`. Leases that it still holds expire, and `reap` revokes them.
-- Example:
--   select wakeboard.deregister_worker(7);

create or replace function wakeboard.deregister_worker(worker wakeboard.worker_number)
returns void language sql security definer
set lock_timeout = '1s'
as $$
  with gone as (delete from workers where worker_id = worker returning worker_id, name, pool, started_at)
  insert into past_workers (worker_id, name, pool, started_at)
  select worker_id, name, pool, started_at from gone on conflict do nothing
$$;
