-- The times of a schedule before an edit, while their due ticks wait for the scheduler.
-- locks: job_definitions

alter table job_definitions add column former_timings jsonb;
comment on column job_definitions.former_timings is
  'what decided its ticks before edits of an application: the ticks after next_run_at and up to `until` wait for the scheduler; null: none';
