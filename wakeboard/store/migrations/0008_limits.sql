-- Limits: how many runs of a limit key run at once, and how often they start.

create table job_limits (
  key           text primary key,
  max_running   integer not null default 1,
  is_explicit   boolean not null default false,
  rate_count    integer,
  rate_period_s integer,
  rate_burst    integer,
  next_unit_at  timestamptz not null default 'epoch',
  paused_until  timestamptz not null default 'epoch',
  created_at    timestamptz not null default statement_timestamp(),
  constraint limit_is_0_to_1000000 check (max_running between 0 and 1000000),
  constraint rate_is_1_to_1000000_per_1_to_2678400_s check (
    num_nulls(rate_count, rate_period_s, rate_burst) = 3
    or num_nulls(rate_count, rate_period_s, rate_burst) = 0 and rate_count between 1 and 1000000
       and rate_period_s between 1 and 2678400 and rate_burst between 1 and 1000000)
) with (fillfactor = 50);
comment on table job_limits is
  'How many runs of a limit key run at once, and how often they start. Keys schedule:ID belong to the schedule with that id.';
comment on column job_limits.max_running is 'the default: 1, or 1000000 (any number) beside a rate limit';
comment on column job_limits.is_explicit is
  'an administrator set max_running; rows with the default and without a rate limit are deleted when unused';
comment on column job_limits.rate_count is
  'rate_count units become free each rate_period_s seconds; each start of a run takes one. Null: no rate';
comment on column job_limits.rate_burst is 'how many units are free after a pause: so many runs start at once';
comment on column job_limits.next_unit_at is 'when all units will be free again (the theoretical arrival time of GCRA)';
comment on column job_limits.paused_until is 'no run starts before; set by a handler, for example after an answer 429';

-- An administrator may have set others since.
create table declared_limits (
  source        source_name not null,
  key           limit_key_name not null,
  max_running   integer,
  rate_count    integer,
  rate_period_s integer,
  rate_burst    integer,
  declared_at   timestamptz not null default statement_timestamp(),
  primary key (source, key)
);
comment on table declared_limits is
  'The limits that sources declare in files, as declare_limits received them last. job_limits has those in force.';
comment on column declared_limits.max_running is 'how many runs at once; null: the default';
comment on column declared_limits.declared_at is
  'when the source declared this limit first or changed it; the newest declaration of a key counts';
