-- internal (called by backlog, fetch_runs and next_due)
-- Returns up to `scan_limit` limit keys after `after_key`, in order, that have waiting runs in these queues. Fewer than `scan_limit`: there
-- are no more keys. Workers pass the last key again to go through all of them in turn.

create or replace function wakeboard.due_limit_keys(
  queues text[], after_key text default '', scan_limit integer default 200)
returns setof text language plpgsql stable security definer
set lock_timeout = '1s'
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
begin
  if not exists (select from job_runs            -- usually, and this costs a third
                  where queue = any (queues) and limit_key is not null and not holds_slot and crash_count < 2 and dead_at is null) then
    return;
  end if;
  return query
  select distinct found.key
    from unnest(queues) as wanted (queue)
   cross join lateral (
     with recursive scan (key) as (            -- one index descent for each key, however many runs it has
       (select limit_key::text from job_runs
         where job_runs.queue = wanted.queue and limit_key > coalesce(after_key, '')
           and limit_key is not null and not holds_slot and crash_count < 2 and dead_at is null
         order by limit_key limit 1)
       union all
       select (select limit_key::text from job_runs
                where job_runs.queue = wanted.queue and limit_key > scan.key
                  and limit_key is not null and not holds_slot and crash_count < 2 and dead_at is null
                order by limit_key limit 1)
         from scan where scan.key is not null)
     select key from scan where key is not null limit scan_limit) as found
   where not exists (select from pauses where scope in ('all', 'queue:' || wanted.queue))
   order by 1
   limit scan_limit;
end
$$;
