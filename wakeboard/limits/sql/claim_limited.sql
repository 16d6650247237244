-- internal (called by fetch_runs)
-- Leases up to `count` due runs of the limit keys `keys`, and never more of a key than its limit and its rate limit allow. See
-- `fetch_runs` for leases and rows.
-- A run of a schedule whose concurrencyPolicy is not Allow has the limit key of its schedule. If the schedule also has a limitKey, the run
-- carries it as shared_limit_key, and needs a free slot of both keys and a unit of the limitKey's rate limit. The keys are served in random
-- order. With a probability of 1 in 20, the free slots of a key go to the runs that have been due for longest, whatever their priority.
-- A key without a row in job_limits gets one (limit 1). The first statement locks the keys' rows in job_limits and skips those that another
-- worker has locked; later statements count the leases and claim. A single statement would count in a snapshot from before the lock.

create or replace function wakeboard.claim_limited(
  worker bigint, lease_s integer, queues text[], job_types text[], keys text[], count integer, max_timeout_s integer default 2678400)
returns setof wakeboard.claimed_run language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
set lock_timeout = '1s'
as $$
declare
  own_keys text[];                     -- of schedules that have a limitKey, too, and of their backfills
  shared_keys text[];                  -- that limitKey
  locked_keys text[];
  turn record;
  turn_count integer;
  locked record;                       -- runs
  shared_first boolean := random() < 0.5;
  rated boolean;                       -- whether one of the keys may have a rate limit
begin
  perform require_read_committed('claim_limited');
  select array_agg(own.key), array_agg(own.shared_key) into own_keys, shared_keys from shared_limit_keys(keys) as own;
  perform create_limits(keys || shared_keys);
  select array_agg(key), bool_or(rate_count is not null) or shared_keys is not null into locked_keys, rated
    from (select key, rate_count from job_limits where key = any (keys) order by key for update skip locked) as locked;

  for turn in
    select array_agg(key) as keys, null as shared_key, 0.5 as place
      from unnest(locked_keys) as key where own_keys is null or key <> all (own_keys)
    union all
    select array[own.key], own.shared_key, random() / 2 + case when shared_first then 0 else 0.5 end
      from unnest(own_keys, shared_keys) as own (key, shared_key) where own.key = any (locked_keys)
     order by place
  loop
    turn_count := claim_limited.count;
    if turn.shared_key is not null then
      perform from job_limits where key = turn.shared_key for update skip locked;
      continue when not found;
      turn_count := least(turn_count, free_slots(turn.shared_key),
                          (select free_units(bound) from job_limits as bound where bound.key = turn.shared_key));
    end if;
    continue when turn_count <= 0 or turn.keys is null;
    select array_agg(id) as ids, array_agg(definition_id) as definitions, array_agg(key) as keys into locked
      from (
        select due.id, due.definition_id, due.key
          from (select key, max_running, random() < 0.05 as oldest_first,
                       case when rate_count is null and paused_until = 'epoch' then 1000000 else free_units(limits) end as units
                  from job_limits as limits where key = any (turn.keys) order by random()) as bound
         cross join lateral (
           select free.id, free.definition_id, bound.key
             from (select served.queue, wanted.priority
                     from unnest(array[5, 4, 3, 2, 1]::smallint[]) with ordinality as wanted (priority, place)
                    cross join unnest(queues) with ordinality as served (queue, place)
                    order by case when bound.oldest_first then (
                               select run_at from job_runs
                                where job_runs.queue = served.queue and limit_key = bound.key and job_runs.priority = wanted.priority
                                  and limit_key is not null and not holds_slot and crash_count < 2 and dead_at is null
                                  and run_at <= statement_timestamp()
                                  and job_type = any (job_types) and timeout_s <= max_timeout_s
                                order by run_at, id
                                limit 1) end, wanted.place, served.place) as pair
            cross join lateral (
              select job_runs.id, job_runs.definition_id
                from job_runs
               where job_runs.queue = pair.queue and limit_key = bound.key and job_runs.priority = pair.priority
                 and limit_key is not null and not holds_slot and crash_count < 2 and dead_at is null
                 and run_at <= statement_timestamp() and shared_limit_key is not distinct from turn.shared_key
                 and locked_by = 0 and job_type = any (job_types) and timeout_s <= max_timeout_s
                 and (start_before is null or start_before > statement_timestamp() or started_at > 'epoch')
               order by run_at, id
               limit bound.max_running
                 for update skip locked) as free
            where not exists (select from pauses where scope in ('all', 'queue:' || pair.queue))
            limit greatest(0, least(bound.units, bound.max_running
              - (select count(*) from job_runs as held where held.limit_key = bound.key and held.holds_slot)
              - (select count(*) from job_runs as held where held.shared_limit_key = bound.key and held.holds_slot)))) as due
         limit turn_count) as claimable;
    continue when locked.ids is null;
    if rated then
      update job_limits as bound set next_unit_at = advance_rate(bound, started.units)
        from (select coalesce(turn.shared_key, key) as key, count(*) as units from unnest(locked.keys) as key group by 1) as started
       where bound.key = started.key and bound.rate_count is not null;
    end if;
    return query select * from lease_runs(worker, lease_s, locked.ids, locked.definitions);
    count := count - cardinality(locked.ids);
  end loop;
end
$$;
