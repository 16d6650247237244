-- One trigger for each INSERT into job_runs, instead of one for each row and one for each statement (functions/runs_inserted.sql).
-- locks: job_runs
drop trigger job_runs_plain_insert on job_runs;
drop trigger if exists job_runs_notify on job_runs;              -- a new installation has no functions yet but those of migrations
drop function refuse_insert();
drop function if exists notify_workers();
create function runs_inserted() returns trigger language plpgsql as 'begin return null; end';      -- replaced by the file
create trigger job_runs_inserted after insert on job_runs referencing new table as inserted for each statement
  execute function runs_inserted();
