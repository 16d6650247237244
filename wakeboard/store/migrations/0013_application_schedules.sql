-- Schedules that an application creates: rows of job_definitions whose source is 'app'.
-- locks: installation, job_definitions

alter table job_definitions
  alter source set default 'app', alter namespace set default 'default', alter name set default '', alter spec_hash set default '',
  drop constraint a_schedule_has_compiled_fields,
  add constraint a_schedule_has_compiled_fields check ((schedule is null) = (cron_fields is null) or source = 'app') not valid;

-- Names by prefix, whatever the collation of the database, and the owner of a name; and the removed ones, to delete them after a time. The
-- table is small when this is applied: until now it has held what YAML files declare.
create index job_definitions_names on job_definitions (namespace collate "C", name collate "C");
create index job_definitions_gone on job_definitions (removed_at) where removed_at is not null and source = 'app';

alter table installation
  add column max_schedules_per_namespace integer,
  add constraint max_schedules_per_namespace_is_not_negative check (max_schedules_per_namespace >= 0) not valid;

comment on column installation.max_schedules_per_namespace is
  'applications create no more schedules in a namespace (set_max_schedules); null: any number';
comment on column job_definitions.source is 'app: applications created it; k8s:CLUSTER or file:NAME declares it';
comment on column job_definitions.cron_fields is
  'compiled from schedule; null with source app: the scheduler will compile it, for the ticks after next_run_at';
