-- Worker processes, and the job types that they know.

create table workers (
  worker_id  bigint primary key,
  name       text not null,
  pool       text not null,
  host       text not null default '',
  version    text not null default '',
  pod_uid    text,
  queues     text[] not null,
  capacity   integer not null,
  lease_s    integer not null,
  started_at timestamptz not null default statement_timestamp(),
  last_seen  timestamptz not null default statement_timestamp(),
  heartbeats_since timestamptz not null default statement_timestamp(),   -- no heartbeat has been late since then
  constraint worker_id_is_not_zero check (worker_id <> 0),
  constraint a_lease_is_1_second_to_1_hour check (lease_s between 1 and 3600),
  constraint a_worker_is_named_in_up_to_256_characters
    check (char_length(name) <= 256 and char_length(pool) <= 256 and char_length(host) <= 256 and char_length(version) <= 256),
  constraint a_worker_serves_up_to_1000_queues check (cardinality(queues) <= 1000),
  constraint capacity_is_1_to_1000000 check (capacity between 1 and 1000000)
) with (fillfactor = 50);
comment on table workers is 'Worker processes that are alive, by their heartbeats.';
comment on column workers.pod_uid is 'the uid of its pod; null: unknown';

-- register_worker bounds the number of types.
create table worker_types (
  job_type      text not null,
  queue         text not null,
  pool          text not null,
  last_known_at timestamptz not null default statement_timestamp(),
  offers        jsonb,
  primary key (job_type, queue, pool)
);
comment on table worker_types is 'Which job types each pool knew lately, in which queues.';
comment on column worker_types.offers is 'what its workers offer to a built-in job type: hosts, commands or namespaces; null: unknown';

create table past_workers (
  worker_id  bigint primary key,
  name       text not null,
  pool       text not null,
  started_at timestamptz not null,
  ended_at   timestamptz not null default statement_timestamp()
);
create index past_workers_ended on past_workers (ended_at);
comment on table past_workers is 'Worker processes that have ended, as long as the history may have runs of them.';
