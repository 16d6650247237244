-- Which transaction created a schedule, and which removed it: an edit by the same one edits what no other has seen.
-- locks: job_definitions

alter table job_definitions add column created_by xid8, add column removed_by xid8;
alter table job_definitions alter column created_by set default pg_current_xact_id();
comment on column job_definitions.created_by is
  'the transaction that created it; with created_at, since a restored database counts its transactions again; null: an earlier release did';
comment on column job_definitions.removed_by is 'the transaction that removed it; null: none did, or the scheduler, after its last tick';
drop function if exists is_of_this_transaction(bigint);
