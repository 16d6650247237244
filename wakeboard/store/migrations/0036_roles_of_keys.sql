-- A key is no right to the run that has it: only the role that enqueued the run gets its uuid. It is the role of the last SET ROLE, or else
-- the one that logged in: `current_user` is the owner of the functions. Null: enqueued before this migration.
-- locks: job_keys, job_unique_keys
alter table job_keys add column created_by text;
alter table job_keys alter column created_by
  set default case current_setting('role') when 'none' then session_user::text else current_setting('role') end;
alter table job_unique_keys add column created_by text;
alter table job_unique_keys alter column created_by
  set default case current_setting('role') when 'none' then session_user::text else current_setting('role') end;
