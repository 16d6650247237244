-- for: worker
-- A worker leaves; it holds no lease any more, or lets what it holds lapse.

create or replace function wakeboard.deregister_worker(worker bigint)
returns void language sql security definer
set search_path = pg_catalog, wakeboard, pg_temp
set lock_timeout = '1s'
as $$
  delete from workers where worker_id = worker
$$;
