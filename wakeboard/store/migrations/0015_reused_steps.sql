-- Which attempts took the stored result of a step.
-- locks: job_steps

alter table job_steps add column reused_epochs bigint[] not null default '{}';
comment on column job_steps.reused_epochs is 'lease epochs of later attempts that took its stored result, the last 100';
