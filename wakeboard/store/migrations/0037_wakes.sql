-- The pool and the start of workers that have ended, so that the board shows when each pool wakes.
-- locks: past_workers

alter table past_workers add column pool text, add column started_at timestamptz;
comment on column past_workers.pool is 'null: it ended before this was stored';
