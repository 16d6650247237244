-- An attempt whose run an administrator cancelled is neither a failure nor a release.

alter table job_attempts drop constraint outcome_is_failed_crashed_timed_out_snoozed_or_released;
alter table job_attempts add constraint outcome_is_a_known_one
  check (outcome in ('failed', 'timed_out', 'crashed', 'cancelled', 'snoozed', 'released'));
