-- Indexes for a million schedules: the queues and job types in use, and what is stalled.
-- locks: job_definitions

create index job_definitions_types on job_definitions (queue, job_type) where removed_at is null;
create index job_definitions_stalled on job_definitions (id) where schedule_error is not null and removed_at is null;
