-- Which attempts an effect belongs to: the first one that began it (lease_epoch), those that began it again, and the one that finished it.
-- locks: job_effects

alter table job_effects add column begun_epochs bigint[] not null default '{}', add column finished_epoch bigint;
comment on column job_effects.begun_epochs is 'lease epochs of later attempts that began the effect again, while it was in doubt';
comment on column job_effects.finished_epoch is 'lease epoch of the attempt that reported the effect as done; null: the one that began it';
