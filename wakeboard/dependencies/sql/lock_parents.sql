-- internal (called by enqueue_many)
-- Locks the runs that the runs of one call will wait for, in the order in which other functions lock runs. Raises 55P03 if another
-- transaction has locked one of them for two seconds.

create or replace function wakeboard.lock_parents(parents bigint[])
returns void language plpgsql security definer
set enable_seqscan = off set jit = off set lock_timeout = '2s'
as $$
begin
  perform from job_runs where id = any (parents) order by id for no key update;
exception when lock_not_available then
  perform refuse_locked();
end
$$;
