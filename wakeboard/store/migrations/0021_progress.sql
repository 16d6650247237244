-- What a handler reports of its run and of its steps in words, and which steps have failed.
-- locks: job_runs, job_steps

alter table job_runs add column progress_message text;
comment on column job_runs.progress_message is 'what its handler reported last with the progress';

alter table job_steps
  add column progress real,
  add column progress_message text,
  add column failed_at timestamptz,
  add column error text;
comment on column job_steps.progress is 'from 0 to 1, while it is not finished; null: it has reported none';
comment on column job_steps.failed_at is 'its function raised `error`; null: it runs, is finished, or its attempt ended without it';
