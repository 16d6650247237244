-- The installation: what this database is, and what is paused in it.

create table installation (
  only_row         boolean primary key default true,
  id               uuid not null default gen_random_uuid(),   -- tells one database from another (status.installation)
  min_code_version text not null default '0.1.0',             -- the oldest release that may work on this schema
  functions_by     text not null default '',                  -- the release that wrote the functions in place
  functions_hash   text not null default '',
  roles            jsonb not null default '{}',               -- who was granted what: {"worker": "wakeboard_worker", …}
  reaped_at        timestamptz not null default 'epoch',      -- the last walk over all leases
  tidied_at        timestamptz not null default 'epoch',      -- when tidying last found nothing left to do
  created_at       timestamptz not null default statement_timestamp(),
  constraint there_is_one_installation_per_database check (only_row)
);
insert into installation default values;

-- While something is paused nothing of it is claimed and no tick of it is made: an outage that somebody chose.
create table pauses (
  what      text primary key,
  reason    text not null default '',
  paused_at timestamptz not null default statement_timestamp(),
  constraint "what_is_all_or_queue_NAME_or_schedule_ID" check (what = 'all' or what ~ '^queue:.' or what ~ '^schedule:[0-9]+$')
);

create domain job_type_name as text
  constraint job_type_has_1_to_128_characters check (char_length(value) between 1 and 128);
create domain queue_name as text
  constraint queue_has_1_to_63_characters check (char_length(value) between 1 and 63);
create domain limit_key_name as text
  constraint limit_key_has_1_to_256_characters check (char_length(value) between 1 and 256);
create domain run_priority as smallint
  constraint priority_is_1_to_5_and_5_goes_first check (value between 1 and 5);
create domain run_payload as jsonb
  constraint "payload_is_an_object_or_list_up_to_64_KiB_pass_ids_not_blobs"
  check (jsonb_typeof(value) in ('object', 'array') and pg_column_size(value) <= 65536);
create domain attempt_limit as integer
  constraint max_attempts_is_1_to_1000 check (value between 1 and 1000);
create domain duration_s as integer
  constraint a_duration_is_1_second_to_31_days check (value between 1 and 2678400);
create type backoff_strategy as enum ('exponential', 'fixed');
