-- What each table, view and type is for, and the columns that do not say it themselves.

comment on table migrations is 'The migrations that have been applied, each once.';
comment on table installation is 'What this database is, who may work on it, and when maintenance was done last. One row.';
comment on table pauses is 'What is paused: all, queue:NAME or schedule:ID. Nothing of it is claimed, and no tick of it is made.';
comment on table job_definitions is 'The schedules as they are stored, one row for each JobSchedule. A removed one keeps its row (removed_at).';
comment on table definition_changes is 'Schedules whose status must be computed again. Functions insert, the operator takes.';
comment on table removal_holds is 'Removals of many schedules at once that wait for a confirmation.';
comment on table job_runs is 'Live runs: queued, running, failed (will be tried again) or dead. Call wakeboard.enqueue, or INSERT job_type, payload, queue, priority, run_at and max_attempts.';
comment on table job_run_history is 'Finished runs: succeeded, cancelled, skipped, or dead and discarded. Partitioned by week; nothing is updated.';
comment on view all_runs is 'Live and finished runs together.';
comment on table job_attempts is 'Attempts that did not succeed, and how each ended.';
comment on table job_steps is 'Named parts of runs and their stored results.';
comment on table job_effects is 'The effects ledger: an effect of a run happens once for each key.';
comment on table job_keys is 'Idempotency keys, and the run that each stands for.';
comment on table job_limits is 'How many runs of a limit key run at once. Keys schedule:ID belong to the schedule of that id.';
comment on table workers is 'Worker processes that are alive, by their heartbeats.';
comment on table worker_types is 'Which job types each pool knew lately, in which queues.';
comment on table leadership is 'Which operator leads for a source, and its term.';
comment on table action_tokens is 'Annotations that were acted upon, each once.';
comment on type claimed_run is 'What a claim gives to a worker: id and lease_epoch name the lease; attempts counts this one; timeout_s is counted from the real start; scheduled_for is the tick, run_at when it was due; definition_id and schedule are null for a run of an application.';

comment on column job_runs.scheduled_for is 'the tick that the run stands for; of an application: when it was due first';
comment on column job_runs.run_at is 'not claimed before; the next try of a failed run';
comment on column job_runs.started_at is 'of the latest attempt; epoch: never started';
comment on column job_runs.locked_until is 'the lease holds until then, if no heartbeat prolongs it';
comment on column job_runs.locked_by is 'the worker process (workers.nonce); 0: free';
comment on column job_runs.lease_epoch is 'grows at every claim and every revoke: the fence';
comment on column job_runs.holds_slot is 'a limited run with a live lease';
comment on column job_runs.start_before is 'startingDeadlineSeconds: it is skipped if it has not started by then';
comment on column job_run_history.reason is 'why it was cancelled, skipped or discarded';
comment on column job_run_history.skipped_count is 'ticks from scheduled_for to skipped_until that were not run';
comment on column job_definitions.next_run_at is 'the next tick to be made; null: none will come';
comment on column job_definitions.last_tick_at is 'only grows; a tick at or before it is never made';
comment on column job_limits.said is 'an administrator set it; others are removed when unused';
comment on column installation.history_kept is 'finished runs are kept at least so long (set_retention)';
comment on column installation.keys_kept is 'idempotency keys are kept at least so long after their run ended';
comment on column installation.dead_kept is 'dead runs are kept at least so long; null: for ever';
