-- What a worker carries from one call of fetch_runs to the next. Workers receive it as a text and pass it back: they do not read it.
-- Priority p of the queue queues[q] has place (5 - p) * n + q in the arrays of places, n being the number of queues.

create type fetch_state as (
  queues text[],                       -- as the worker named them
  -- the scan in the order of priority
  after_run_at timestamptz[],          -- of each place: behind this run, it continues
  after_id bigint[],
  finished boolean[],                  -- of each place: it has been read to its end
  from_start boolean,                  -- the scan has found no run yet, and has not reached its end
  unlimited boolean,                   -- the next claim reads without a limit, because the last one was full and skipped no row
  scan_s double precision,             -- from the start of the scan to its first run, or to its end
  next_scan_at timestamptz,            -- then the scan begins again
  turn integer,                        -- of the queues in a priority
  limited_first boolean,               -- the next call claims runs with a limit key first
  after_key text,                      -- the limit key after which the next claim continues
  limited_at timestamptz,              -- no claim of runs with a limit key before
  -- the scans in the order of age, one for each queue
  owed double precision,               -- runs to claim by age
  oldest_at timestamptz,               -- no claim by age before
  oldest_turn integer,                 -- the queue that had the last turn
  oldest_run_at timestamptz[],         -- of each place
  oldest_id bigint[],
  oldest_s double precision[],         -- of each queue: how long the scan has taken
  oldest_next timestamptz[],           -- of each queue: then the scan begins again; infinity: it has not reached its end
  oldest_done boolean[],               -- of each queue: the scan has found nothing more
  -- quarantined runs
  ask_at timestamptz,                  -- then the worker asks for how long they have waited
  yields_since timestamptz,            -- since then it gets no run, so that it becomes idle
  yield_s double precision,            -- for so long at most
  alone_since timestamptz);            -- since then it has a quarantined run
