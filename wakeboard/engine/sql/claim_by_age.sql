-- internal (called by claim_in_order)
-- Leases up to `count` due runs of the next queue that has any, without a limit key: those that have been due for longest, whatever their
-- priority. So a steady load of higher priorities starves no lower one. The claims are 200 ms apart, so they add little cost. Each queue
-- has a scan of its own: if a claim finds only runs of other job types or in flight, the next one continues behind them. Rows that become
-- due behind that are found by the next full scan, as in `claim_in_order`.

create or replace function wakeboard.claim_by_age(
  worker bigint, lease_s integer, job_types text[], count integer, max_timeout_s integer,
  inout s wakeboard.fetch_state, out runs wakeboard.claimed_run[])
language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
  n constant integer := cardinality(s.queues);
  began timestamptz;
  further boolean;
  q integer;
  place integer;
  run record;
begin
  runs := '{}';
  for tried in 1..n loop
    began := clock_timestamp();
    q := s.oldest_turn % n + 1;
    s.oldest_turn := q;
    for priority in 1..5 loop
      place := (5 - priority) * n + q;
      if began >= s.oldest_next[q] then                    -- a full scan
        s.oldest_run_at[place] := '-infinity';
        s.oldest_id[place] := 0;
      end if;
      if (s.after_run_at[place], s.after_id[place]) > (s.oldest_run_at[place], s.oldest_id[place]) then
        s.oldest_run_at[place] := s.after_run_at[place];   -- behind what the claims by priority have taken
        s.oldest_id[place] := s.after_id[place];
      end if;
    end loop;
    if began >= s.oldest_next[q] then
      s.oldest_s[q] := 0;
      s.oldest_next[q] := 'infinity';
      s.oldest_done[q] := false;
    end if;
    continue when s.oldest_done[q];
    runs := array(select claimed from claim_oldest(
              worker, lease_s, s.queues[q],
              array(select s.oldest_run_at[(5 - priority) * n + q] from generate_series(1, 5) as priority),
              array(select s.oldest_id[(5 - priority) * n + q] from generate_series(1, 5) as priority),
              job_types, count, 2000, max_timeout_s) as claimed);
    further := false;
    for run in select distinct on (each.priority) each.priority, each.run_at, each.id
                 from unnest(runs) as each order by each.priority, each.run_at desc, each.id desc loop
      s.oldest_run_at[(5 - run.priority) * n + q] := run.run_at;
      s.oldest_id[(5 - run.priority) * n + q] := run.id;
    end loop;
    if cardinality(runs) = 0 then
      for run in select * from advance_scan(s.queues, array(select generate_series(q, 5 * n, n)), s.oldest_run_at, s.oldest_id,
                                            job_types, 2000, max_timeout_s) loop
        s.oldest_run_at[run.place] := run.run_at;
        s.oldest_id[run.place] := run.id;
        further := true;
      end loop;
    end if;
    s.oldest_s[q] := s.oldest_s[q] + extract(epoch from clock_timestamp() - began);
    if further then
      s.oldest_next[q] := 'infinity';
    elsif s.oldest_next[q] = 'infinity' then
      s.oldest_next[q] := clock_timestamp() + make_interval(secs => greatest(2, 20 * s.oldest_s[q]));
    end if;
    s.oldest_done[q] := cardinality(runs) = 0 and not further;
    exit when cardinality(runs) > 0;
  end loop;
  s.oldest_at := clock_timestamp() + interval '200 ms';
end
$$;
