-- An attempt whose run an administrator cancelled is neither a failure nor a release.
-- locks: job_attempts

alter table job_attempts drop constraint outcome_is_failed_crashed_timed_out_snoozed_or_released;
-- `not valid`: the former constraint holds for every row there is, so none is read under the lock.
alter table job_attempts add constraint outcome_is_a_known_one
  check (outcome in ('failed', 'timed_out', 'crashed', 'cancelled', 'snoozed', 'released')) not valid;
