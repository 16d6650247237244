-- When a schedule begins and ends. `schedule` is now a cron expression, an interval (every 90m) or a moment (at 2026-12-01T08:00:00Z).
-- locks: job_definitions

alter table job_definitions
  add column starts_at timestamptz,
  add column ends_at timestamptz,
  add constraint a_schedule_ends_after_it_starts check (starts_at <= ends_at) not valid;

comment on column job_definitions.schedule is
  'what decides its ticks: a cron expression, every 90m, or at 2026-12-01T08:00:00Z; null: on demand';
comment on column job_definitions.starts_at is 'it has no ticks before; an interval is counted from here';
comment on column job_definitions.ends_at is 'it has no ticks after';
comment on column job_definitions.cron_fields is
  'compiled from schedule, starts_at and ends_at; null with source app: the scheduler will compile it, for the ticks after next_run_at';
