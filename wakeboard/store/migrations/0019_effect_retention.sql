-- How long the keys of effects once for ever are kept, and indexes to delete them by age and to list them by the beginning of the key.
-- locks: installation, job_forever_effects

alter table installation
  add column min_effect_retention interval,
  add constraint effects_once_for_ever_are_kept_for_1_to_3650_days
    check (min_effect_retention between '1 day' and '3650 days') not valid;
comment on column installation.min_effect_retention is 'keys of effects once for ever are kept this long after the effect; null: forever';

create index job_forever_effects_finished on job_forever_effects (finished_at) where finished_at is not null;
create index job_forever_effects_keys on job_forever_effects (key collate "C");
