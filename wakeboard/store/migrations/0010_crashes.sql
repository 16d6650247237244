-- What tells a crash from a lost answer and from an outage, and how each lease ended.

alter table job_runs
  add column started_epoch bigint,      -- the newest lease under which a handler is known, or taken, to have started; null: none
  add column cancel_reason text;        -- of the request to cancel it while it runs
update job_runs set started_epoch = lease_epoch where start_before is not null and started_at > 'epoch';

alter table workers
  add column beats_since timestamptz not null default statement_timestamp();   -- its heartbeats have left no gap since then

alter table job_attempts
  drop constraint outcome_is_failed_crashed_or_timed_out,
  add constraint outcome_is_failed_crashed_timed_out_snoozed_or_released
    check (outcome in ('failed', 'crashed', 'timed_out', 'snoozed', 'released'));

-- Their signatures changed.
drop function if exists renew(bigint, integer, bigint[], bigint[], real[], real[]);
drop function if exists release(bigint, bigint[], bigint[], real[], boolean[]);
