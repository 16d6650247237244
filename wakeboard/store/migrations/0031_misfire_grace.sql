-- How late the tick of an edited schedule of an application may be, as the settings of operators and workers say of other ticks.
-- locks: installation

alter table installation
  add column misfire_grace interval not null default '5 minutes',
  add constraint misfire_grace_is_1_second_to_1_day check (misfire_grace between '1 second' and '1 day') not valid;

comment on column installation.misfire_grace is
  'a tick that is due for longer when a schedule is edited was missed, and catch_up decides about it (set_misfire_grace)';
