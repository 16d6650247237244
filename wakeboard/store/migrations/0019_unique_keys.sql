-- Unique windows: for a time, one run of a job type has the values of the keys that `enqueue` names.

create table job_unique_keys (
  job_type     text not null,
  key          bytea not null,                         -- a hash of the values (unique_key)
  run_id       bigint not null,
  run_uuid     uuid not null,
  unique_until timestamptz not null,
  constraint a_unique_key_has_one_run_per_job_type primary key (job_type, key)
);
create index job_unique_keys_until on job_unique_keys (unique_until);
comment on table job_unique_keys is 'Unique windows (unique_for), and the run of each.';
comment on column job_unique_keys.unique_until is 'from then on, another enqueue creates another run';

-- Both have three arguments more now; `migrate` writes them again.
drop function if exists enqueue(text, jsonb, text, integer, timestamptz, text, text, integer, integer, text, integer, integer);
drop function if exists enqueue_many(text[], jsonb[], text[], integer[], timestamptz[], text[], text[], integer, integer);
