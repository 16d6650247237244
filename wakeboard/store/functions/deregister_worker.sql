-- for: worker
-- Deletes the row of a worker that stops. Leases that it still holds expire, and `reap` revokes them.
-- Example:
--   select wakeboard.deregister_worker(7);

create or replace function wakeboard.deregister_worker(worker wakeboard.worker_number)
returns void language sql security definer
set search_path = pg_catalog, wakeboard, pg_temp
set lock_timeout = '1s'
as $$
  delete from workers where worker_id = worker
$$;
