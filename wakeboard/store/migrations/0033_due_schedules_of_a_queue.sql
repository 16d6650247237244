-- Indexes for very many schedules that a pause holds: the due ones of the queues that are not paused, and the pauses that end.

create index concurrently job_definitions_due_of_queue on wakeboard.job_definitions (queue, next_run_at, id)
  where removed_at is null and not suspended and schedule_error is null;
create index concurrently pauses_ending on wakeboard.pauses (until) where until is not null;
