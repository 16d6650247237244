-- When a run ended that others may wait for, so that workers do not look again and again for an end that must wait.
-- locks: ended_runs

alter table ended_runs add column ended_at timestamptz not null default statement_timestamp();
comment on column ended_runs.ended_at is 'when the row was appended';
