-- How the starts of a step ended that a later attempt repeated.
-- locks: job_steps

alter table job_steps add column earlier_starts jsonb not null default '[]';
comment on column job_steps.earlier_starts is
  'starts that did not finish it and that a later one replaced, the last 100: objects with lease_epoch, started_at, failed_at, error …';
