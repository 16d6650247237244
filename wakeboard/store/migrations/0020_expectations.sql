-- What a schedule expects of its ticks: a success within a time. The triggers that name all options of a schedule are created again.
-- locks: job_definitions

alter table job_definitions
  add column expect_success_within_s integer,
  add column alert_after_missed integer,
  add column success_expected_from timestamptz,
  add column success_due_at timestamptz,
  add column success_missed_at timestamptz,
  add constraint expect_success_within_s_is_1_to_2678400 check (expect_success_within_s between 1 and 2678400) not valid,
  add constraint alert_after_missed_is_1_to_100 check (alert_after_missed between 1 and 100) not valid;

create index job_definitions_expecting on job_definitions (success_due_at)
  where success_due_at is not null and not suspended;
create index job_definitions_missed on job_definitions (id) where success_missed_at is not null;

drop trigger if exists job_definitions_guarded on job_definitions;
drop trigger if exists job_definitions_of_applications on job_definitions;

comment on column job_definitions.expect_success_within_s is
  'seconds after a tick, or after its run was created, in which the run succeeds; null: nothing is expected';
comment on column job_definitions.alert_after_missed is 'so many ticks in a row without this success are an alert; null: 1';
comment on column job_definitions.success_expected_from is 'ticks until then do not count: the expectation is newer';
comment on column job_definitions.success_due_at is 'then update_expectations looks again whether a tick has missed its success';
comment on column job_definitions.success_missed_at is 'since when alert_after_missed ticks in a row have no success; null: they have';
