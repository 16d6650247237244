-- The trigger job_definitions_written now checks what these constraints checked. Postgres read and planned each of them for each statement
-- that wrote a schedule, and evaluated it for each tick. The operator passes over the changes of schedules of applications when it reads
-- them: to do so as each change was written took more than half of what writing it took.
-- locks: definition_changes, job_definitions

lock table definition_changes in access exclusive mode;        -- as the next statement does where the trigger is
drop trigger if exists definition_changes_noted on definition_changes;
drop trigger if exists job_definitions_of_applications on job_definitions;
drop trigger if exists job_definitions_that_expect on job_definitions;
drop function if exists application_schedule_written(), expectation_written(), change_noted(), check_schedule(job_definitions);

alter table job_definitions
  drop constraint "concurrency_policy_is_Allow_Forbid_Replace_or_Queue",
  drop constraint "catch_up_is_Skip_Latest_or_All",
  drop constraint "dst_gap_is_Skip_or_RunAfter",
  drop constraint "dst_overlap_is_First_or_Both",
  drop constraint jitter_is_not_negative,
  drop constraint starting_deadline_is_at_least_1_second,
  drop constraint suspend_after_dead_is_1_to_100,
  drop constraint expect_success_within_s_is_1_to_2678400,
  drop constraint alert_after_missed_is_1_to_100,
  drop constraint a_schedule_ends_after_it_starts,
  drop constraint the_job_type_is_not_of_the_product,
  drop constraint limit_key_is_a_name,
  drop constraint origin_has_at_most_300_characters,
  drop constraint "labels_are_an_object_of_at_most_8_KiB",
  drop constraint a_schedule_has_compiled_fields,
  drop constraint only_an_open_circuit_has_probes;

comment on constraint limit_key_is_a_name on domain limit_key_name is
  'also the keys of schedules and backfills, which job_definitions_written refuses for a schedule';
