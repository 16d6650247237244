-- internal (called by fetch_runs)
-- Takes up to `count` due runs without a limit key: a twentieth of those of a backlog by age, the others by priority. See `fetch_runs`.
-- `runs` are leased; a full batch `ids`, of the schedules `definitions`, is only locked: `lease_runs` then returns its rows uncopied.
-- `again`: there may be more, because the scan has neither found a run nor reached its end.
--
-- A claim by priority continues behind the last row that the previous one considered, so it skips dead index entries and runs in flight.
-- Rows that become due behind that (late commits, retries, releases) are found by the next full scan. It starts after two seconds or
-- twenty times the duration of the last one, whichever is longer. Once the scan has reached its end, the two seconds no longer apply. So
-- scanning takes a twentieth of the time at most. A scan that finds nothing reads past the runs of other job types for 5 ms.

create or replace function wakeboard.claim_in_order(
  worker bigint, lease_s integer, job_types text[], count integer, max_timeout_s integer,
  inout s wakeboard.fetch_state, out runs wakeboard.claimed_run[], out ids bigint[], out definitions bigint[], out again boolean)
language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
  began timestamptz := clock_timestamp();
  n constant integer := cardinality(s.queues);
  wanted constant integer := count;
  due record;                          -- of lock_due_runs
  by_age integer := 0;                 -- runs
  claimed integer;                     -- by priority
  places integer[];                    -- in the order in which they are served
  reads integer := 2000;               -- due rows of a place that a claim reads
  full_batch boolean;
  reached integer;                     -- position in `places` of the last one that has a locked run
  last integer;                        -- of the locked runs of a place
  unfinished integer[];                -- those before it
  took_s double precision;
  run record;
  place integer;
begin
  again := false;
  runs := '{}';
  if s.owed + count * 0.05 >= 1 and began >= s.oldest_at then
    select * into run
      from claim_by_age(worker, lease_s, job_types, least(count, floor(s.owed + count * 0.05)::integer), max_timeout_s, s);
    s := run.s;
    runs := run.runs;
    by_age := cardinality(runs);
    count := count - by_age;
    began := clock_timestamp();
  end if;
  if began >= s.next_scan_at and not s.from_start then
    s.after_run_at := array_fill('-infinity'::timestamptz, array[5 * n]);
    s.after_id := array_fill(0::bigint, array[5 * n]);
    s.finished := array_fill(false, array[5 * n]);
    s.from_start := true;
    s.unlimited := false;
    s.scan_s := 0;
  end if;
  if s.unlimited then
    reads := null;
  end if;
  places := array(select (5 - priority) * n + q
                    from generate_series(1, 5) as priority
                   cross join (select q, (q + s.turn) % n as turn from generate_series(1, n) as q) as queue
                   order by priority desc, turn);

  loop
    select * into due
      from lock_due_runs(s.queues, places, s.after_run_at, s.after_id, job_types, count, reads, max_timeout_s);
    ids := coalesce(due.ids, '{}');
    claimed := cardinality(ids);
    full_batch := claimed >= count;
    again := false;
    exit when full_batch or reads is null or not exists (                -- usually, no place has more rows than were read
      select from unnest(places) as p
       cross join lateral (
         select from job_runs
          where queue = s.queues[(p - 1) % n + 1] and priority = 5 - (p - 1) / n
            and limit_key is null and crash_count < 2 and dead_at is null
            and run_at <= statement_timestamp() and (run_at, id) > (s.after_run_at[p], s.after_id[p])
         offset reads limit 1) as further);
    if claimed > 0 then                -- at once: `advance_scan` stops at a run that is not leased
      runs := runs || array(select leased from lease_runs(worker, lease_s, ids, due.definitions) as leased);
      ids := '{}';
    end if;
    for run in select * from advance_scan(s.queues, places, s.after_run_at, s.after_id, job_types, 2000, max_timeout_s) loop
      s.after_run_at[run.place] := run.run_at;
      s.after_id[run.place] := run.id;
      again := true;
    end loop;
    exit when not again or claimed > 0 or clock_timestamp() - began > interval '5 ms';
  end loop;

  -- Continue behind a full batch. The places before its last one have no run that can be claimed within the limit of the scan. If they have
  -- more rows behind it, the next claim continues there; otherwise a backlog of a lower priority would hide those rows for ever.
  s.unlimited := false;
  if full_batch and count > 0 then
    last := claimed;
    reached := array_position(places, due.places[last]);
    while last > 0 loop                -- they are in the order of the places
      place := due.places[last];
      s.after_run_at[place] := due.run_ats[last];
      s.after_id[place] := ids[last];
      last := array_position(due.places, due.places[last]) - 1;
    end loop;
    unfinished := array(select p from unnest(places[:reached - 1]) as p where not s.finished[p]);
    if unfinished <> '{}' then
      foreach place in array unfinished loop
        s.finished[place] := true;
      end loop;
      for run in select * from advance_scan(s.queues, unfinished, s.after_run_at, s.after_id, job_types, 2000, max_timeout_s) loop
        s.after_run_at[run.place] := run.run_at;
        s.after_id[run.place] := run.id;
        s.finished[run.place] := false;
      end loop;
    end if;
    s.unlimited := (select coalesce(bool_and(s.finished[p]), true) from unnest(places[:reached - 1]) as p);
  end if;

  took_s := extract(epoch from clock_timestamp() - began);
  if s.from_start then
    s.scan_s := s.scan_s + took_s;
  end if;
  if not again or claimed > 0 then
    if s.from_start then
      s.from_start := false;
      s.next_scan_at := clock_timestamp() + make_interval(secs => greatest(2, 20 * s.scan_s));
    end if;
    if not full_batch then
      s.next_scan_at := least(s.next_scan_at, clock_timestamp() + make_interval(secs => 20 * s.scan_s));
    end if;
  end if;
  s.turn := (s.turn + 1) % n;
  definitions := due.definitions;
  s.owed := case when by_age + claimed >= wanted then least(coalesce(s.owed, 0) + wanted * 0.05 - by_age, greatest(1, wanted))
                 when again then coalesce(s.owed, 0) end;    -- null: all places were read to their ends, so there is no backlog
end
$$;
