-- The logs of runs, in batches of lines, partitioned by day.
-- locks: installation

alter table installation add column log_retention interval not null default '7 days',
  add constraint logs_are_kept_for_1_to_3650_days check (log_retention between '1 day' and '3650 days') not valid;   -- the default fits
comment on column installation.log_retention is 'the logs of runs are kept this long (set_retention)';

create table job_run_logs (
  run_uuid    uuid not null,                           -- an id may belong to another run after a failover, a uuid cannot
  lease_epoch bigint not null,
  sequence    integer not null,
  attempt     integer not null,
  first_line  bigint not null,
  last_line   bigint not null,
  level       smallint not null,
  first_at    timestamptz not null,
  stored_at   timestamptz not null default statement_timestamp(),
  lines       bytea not null,
  constraint "a_batch_is_at_most_1_MiB" check (octet_length(lines) <= 1048576),
  constraint lines_are_numbered_from_1 check (first_line >= 1 and last_line >= first_line),
  constraint level_is_0_to_100 check (level between 0 and 100),
  constraint first_at_is_between_the_years_1970_and_3000 check (first_at >= 'epoch' and first_at < '3000-01-01 00:00+00')
) partition by range (stored_at);
alter table job_run_logs alter column lines set storage external;       -- it is compressed already
create index job_run_logs_attempt on job_run_logs (run_uuid, lease_epoch, sequence);

comment on table job_run_logs is 'What runs logged: a row for each batch of lines of one attempt. Partitioned by day.';
comment on column job_run_logs.sequence is 'the number of the batch in its attempt';
comment on column job_run_logs.first_line is 'the number of its first line; numbers that no batch has are lines that were not kept';
comment on column job_run_logs.level is 'the highest level of its lines: 10 debug, 20 info, 30 warning, 40 error, 50 critical';
comment on column job_run_logs.first_at is 'by the clock of the worker: the times of its lines count from then';
comment on column job_run_logs.lines is
  'a JSON array of [number, milliseconds since first_at, level, source, text], compressed with zlib unless it begins with "["';
