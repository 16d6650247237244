-- for: worker
-- Leases up to `count` runs that a worker of these queues and job types may execute now, and says when it asks again: the one call by which
-- a worker gets work. Pass the number of free slots as `count`, and as `state` what the last row of the previous answer said, unchanged
-- (null at first; it names how far the worker has read the queues, whose turn is next, and the newest claim, by which a database that has
-- gone back in time is noticed: `compare_server`).
--
-- A lease holds for least(lease_s, timeout_s + 10, 3600) seconds. Runs with a timeout over `max_timeout_s` are not claimed, nor are runs of
-- a paused queue, of other job types, or past their start_before. Of a limit key, no more are claimed than its limits allow, and in all
-- `limited_count` (null: `count`). Never waits for a lock of a run, and never claims a run whose lease has expired. The order: by priority,
-- then by run_at. One run in twenty of a backlog is the one due for longest, whatever its priority; queues take turns, and so do runs with
-- and without a limit key.
--
-- A `claimed_run` has id and lease_epoch (which name the lease), job_type, payload, attempts (this one counted), max_attempts, timeout_s,
-- scheduled_for (the tick), run_at, queue, priority, crash_count, uuid, definition_id and schedule (null for a run of an application).
-- The last row is no run: its id is null, and its payload is an object with
--   state: for the next call.
--   again: whether to call again as soon as a slot is free, because there may be more now. Otherwise call after a NOTIFY, and
--   due_s: in how many seconds, because a run or a tick is due then. Null: none is announced; call after the poll interval.
--   retry_s: in how many seconds, because due runs wait for a slot of their limit. Null: none do.
--   waits: also when one of the worker's runs has ended, because something waits for that.
--   limited: how many of the rows, which are the first ones, have a limit key. Start these first: they occupy slots of their limits.
--   maintain: the names of the maintenance tasks that may have work, for a worker that does them. Null: not known.
-- `within_s`: how far ahead due_s looks. `all_types`: the job types that due_s considers, and of quarantined runs (null: `job_types`).
--
-- `alone`: whether the worker runs nothing. Only then it may get a quarantined run, one that was running when two workers died, which has
-- crash_count 2. Until it has ended, calls return no run. A worker that is never idle gets none for a while once a quarantined run has
-- waited for a minute: for 30 s, then twice as long each time, and for half of its time at most.
-- Example:
--   select * from wakeboard.fetch_runs(7, 60, '{default}', '{send_mail}', 10);

create or replace function wakeboard.fetch_runs(
  worker bigint, lease_s integer, queues text[], job_types text[], count integer, state text default null, alone boolean default false,
  limited_count integer default null, all_types text[] default null, within_s double precision default 60,
  max_timeout_s integer default 2678400)
returns setof wakeboard.claimed_run language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
set plan_cache_mode = force_generic_plan set datestyle = 'ISO' set lock_timeout = '1s'
as $$
declare
  began constant timestamptz := statement_timestamp();
  s fetch_state;
  runs claimed_run[] := '{}';
  ids bigint[] := '{}';                -- further ones, which are locked
  definitions bigint[];                -- of these
  more claimed_run[];
  part record;
  keys text[];
  first_keys text[];                   -- null: not read
  limited integer := 0;                -- the first rows of `runs` have a limit key
  blocked boolean := false;            -- due runs with a limit key wait
  is_limited boolean;
  again boolean := false;
  answer jsonb;
  last claimed_run;
begin
  if (worker <> 0 and lease_s between 1 and 3600 and count between 0 and 1000000 and max_timeout_s between 1 and 2678400
      and within_s between 0 and 2678400 and num_nulls(queues, job_types) = 0) is not true then
    perform worker::worker_number, lease_s::lease_duration_s, count::row_count, max_timeout_s::longest_timeout_s,
            within_s::horizon_s, queues::queue_array, job_types::job_type_array;    -- cheaper than declaring these types
  end if;
  all_types := coalesce(all_types, job_types);
  begin
    s := state::fetch_state;
  exception when data_exception then   -- of another release: begin again
    s := null;
  end;
  if s.queues is distinct from queues then
    s := new_fetch_state(queues, s.seen);
  end if;
  -- Before it leases anything: a comparison may make the leases void that there are.
  s.seen := case when (s.seen).started_at = pg_postmaster_start_time() and (s.seen).server_table = 'installation'::regclass::oid
                 then s.seen else compare_server(s.seen, false, worker, null) end;

  -- Whose turn is it: a quarantined run's, or the others'?
  if s.alone_since is not null                             -- it has ended: the others have as long
     and not exists (select from job_runs where crash_count >= 2 and dead_at is null and locked_by = worker) then
    s.ask_at := began + greatest(interval '30 s', began - coalesce(s.yields_since, s.alone_since));
    s.yields_since := null;
    s.yield_s := 30;
    s.alone_since := null;
  end if;
  if began > s.yields_since + make_interval(secs => s.yield_s) then    -- the worker did not become idle
    s.yields_since := null;
    s.yield_s := s.yield_s * 2;
    s.ask_at := began + make_interval(secs => s.yield_s);
  end if;
  if began >= s.ask_at and s.alone_since is null then
    s.ask_at := began + interval '30 s';
    s.yields_since := case when quarantined_since(queues, all_types, max_timeout_s) < began - interval '1 minute'
                           then coalesce(s.yields_since, began) end;
  end if;

  if s.alone_since is null and s.yields_since is null and cardinality(queues) > 0 then
    for turn in 1..2 loop
      more := '{}';
      is_limited := (turn = 1) = s.limited_first;
      continue when cardinality(runs) + cardinality(ids) >= count;
      if not is_limited then
        select * into part from claim_in_order(worker, lease_s, job_types, count - cardinality(runs), max_timeout_s, s);
        s := part.s;
        more := part.runs;
        ids := part.ids;
        definitions := part.definitions;
        again := again or part.again;
      elsif began < s.limited_at then
        blocked := true;
      elsif limited_count is distinct from 0 then
        keys := array(select due_limit_keys(queues, s.after_key));
        if keys <> '{}' then
          begin
            more := array(select run from claim_limited(worker, lease_s, queues, job_types, keys, least(
                                            limited_count, count - cardinality(runs) - cardinality(ids)), max_timeout_s) as run);
          exception when lock_not_available then           -- of a table: the other runs are claimed all the same
            null;
          end;
        end if;
        again := again or cardinality(more) > 0;
        if not again then
          s.limited_wait := s.limited_wait or keys <> '{}' and exists (
            select from unnest(keys) as waiting (key) cross join unnest(queues) as served (queue)
             cross join unnest(array[5, 4, 3, 2, 1]::smallint[]) as wanted (priority)
             cross join lateral (
               select from job_runs
                where job_runs.queue = served.queue and limit_key = waiting.key and job_runs.priority = wanted.priority
                  and limit_key is not null and not holds_slot and crash_count < 2 and dead_at is null
                  and run_at <= statement_timestamp() and job_type = any (job_types) and timeout_s <= max_timeout_s
                limit 1) as due);
          blocked := s.limited_wait;
          again := not blocked and cardinality(keys) = 200;
          if blocked then                                  -- so that they take a fifth of the time at most
            s.limited_at := began + greatest(make_interval(secs => case when cardinality(keys) < 200 then 0.05 else 0 end),
                                             5 * (clock_timestamp() - began));
          end if;
        end if;
        first_keys := case when s.after_key = '' then keys end;
        s.after_key := case when cardinality(keys) = 200 then keys[200] else '' end;
        s.limited_wait := s.limited_wait and s.after_key <> '';
      end if;
      if is_limited then
        limited := cardinality(more);
        runs := more || runs;
      else
        runs := runs || more;
      end if;
    end loop;
    if cardinality(runs) + cardinality(ids) > 0 then
      s.limited_first := not s.limited_first;
    end if;
  end if;

  begin
    if cardinality(runs) + cardinality(ids) = 0 and alone and count > 0 and not again then
      runs := array(select run from claim_quarantined(worker, lease_s, queues, all_types, max_timeout_s) as run);
      s.alone_since := case when cardinality(runs) > 0 then began end;
      s.yields_since := case when cardinality(runs) > 0 then s.yields_since end;
    end if;
    if s.alone_since is not null or s.yields_since is not null then
      answer := '{"waits": true}';
    elsif again or cardinality(runs) + cardinality(ids) >= count then
      answer := '{"again": true}';
    else
      answer := jsonb_build_object(
        'waits', blocked or not alone and quarantined_since(queues, all_types, max_timeout_s) is not null,
        'due_s', next_due(queues, all_types, within_s, max_timeout_s, first_keys),
        'maintain', case when cardinality(runs) + cardinality(ids) = 0 then maintenance_due() end,
        'retry_s', case when blocked then extract(epoch from s.limited_at - began) end);
    end if;
  exception when lock_not_available then                   -- of a table: the runs are claimed all the same
    answer := '{"waits": true, "due_s": 1}';
  end;
  s.seen := case when cardinality(runs) + cardinality(ids) = 0 then s.seen else compare_server(s.seen, true, worker, null) end;
  return query select * from unnest(runs);
  if ids <> '{}' then
    return query select * from lease_runs(worker, lease_s, ids, definitions);
  end if;
  last.payload := '{"again": false, "waits": false, "due_s": null, "retry_s": null, "maintain": null}' || answer
                  || jsonb_build_object('limited', limited, 'state', s::text);
  return next last;
end
$$;
