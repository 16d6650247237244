-- An index for very many schedules that expect a success: those of the queues that are not paused.

create index concurrently job_definitions_expecting_of_queue on wakeboard.job_definitions (queue, success_due_at)
  where success_due_at is not null and not suspended;
