-- internal (called by consume, pause_limit and run_results)
-- The limit key that a leased run shares with others: the limitKey of its schedule, or its own. Raises WB001 if the lease is lost.

create or replace function wakeboard.leased_limit_key(worker bigint, run_id bigint, epoch bigint)
returns text language plpgsql volatile security definer
as $$
declare
  leased record;
begin
  select coalesce(shared_limit_key, limit_key) as key into leased
    from job_runs as run
   where run.id = leased_limit_key.run_id and locked_by = worker and lease_epoch = epoch
     and epoch >= lease_base();
  if not found then
    raise exception using errcode = 'WB001', message = format('the lease of run %s is lost', leased_limit_key.run_id);
  end if;
  return leased.key;
end
$$;
