-- internal (called by backlog, claim_limited and claim_quarantined)
-- How many more runs of a limit key may start. The caller has locked the key's row in job_limits.

create or replace function wakeboard.free_slots(key text)
returns bigint language sql volatile security definer
set enable_seqscan = off set enable_bitmapscan = off
as $$
  select coalesce((select max_running from job_limits where job_limits.key = free_slots.key), 1)
         - (select count(*) from job_runs where limit_key = free_slots.key and holds_slot)
         - (select count(*) from job_runs where shared_limit_key = free_slots.key and holds_slot)
$$;
