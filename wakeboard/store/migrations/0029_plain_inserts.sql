-- A plain INSERT sets no internal column of job_runs, from no role.
-- locks: job_runs

-- `enqueue` and `enqueue_many` mark their rows in locked_until, where a plain INSERT has epoch. So the condition, which each statement parses
-- and each row evaluates, is one comparison, and the trigger's function looks at the other rows (functions/refuse_insert.sql).
drop trigger job_runs_plain_insert on job_runs;
create trigger job_runs_plain_insert before insert on job_runs for each row
  when (new.locked_until <> '1969-12-31 00:00+00') execute function refuse_insert();
comment on column job_runs.locked_until is 'the lease expires then, unless a heartbeat renews it; before 1971: not leased';

-- A default that comes from a sequence cannot be told from a given value afterwards: Postgres refuses a given id itself.
alter table job_runs alter id set generated always;
