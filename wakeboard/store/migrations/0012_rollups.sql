-- How runs ended in each minute, hour and day, for charts. `roll_up` keeps the rows; nothing else writes them.

create type rollup_grain as enum ('minute', 'hour', 'day', 'recount');
create type rollup_dimension as enum ('all', 'job_type', 'queue', 'schedule', 'step');

create table run_rollups (
  grain            rollup_grain not null,
  starts_at        timestamptz not null,
  dimension        rollup_dimension not null,
  name             text collate "C" not null,
  succeeded        bigint not null,
  cancelled        bigint not null,
  skipped          bigint not null,
  discarded        bigint not null,
  failed           bigint not null,
  timed_out        bigint not null,
  crashed          bigint not null,
  died             bigint not null,
  duration_buckets smallint[],
  duration_counts  bigint[],
  lateness_buckets smallint[],
  lateness_counts  bigint[],
  constraint a_period_is_counted_once primary key (grain, starts_at, dimension, name),
  constraint each_bucket_has_a_count check (
    cardinality(duration_buckets) is not distinct from cardinality(duration_counts)
    and cardinality(lateness_buckets) is not distinct from cardinality(lateness_counts))
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);

comment on table run_rollups is 'How runs ended in each minute, hour and UTC day, by job type, queue, schedule and step.';
comment on column run_rollups.grain is
  'minute (kept 26 hours), hour (100 days; schedules and steps 8 days) or day; recount: an hour that is being counted again';
comment on column run_rollups.name is
  'all: empty; schedule: its id; step: job type, a space, step name; empty: the steps beyond the first 1,000 of an hour';
comment on column run_rollups.succeeded is 'runs that succeeded; of a step: how often it was finished';
comment on column run_rollups.skipped is 'skipped ticks, and runs that did not start in time';
comment on column run_rollups.discarded is 'dead runs that were discarded';
comment on column run_rollups.failed is 'attempts that failed; timed_out and crashed likewise';
comment on column run_rollups.died is 'runs that became dead, whatever became of them later';
comment on column run_rollups.duration_buckets is
  'of runs that succeeded, from the start of the last attempt to its end; bucket 0: up to 1 ms, bucket n: 2^((n-1)/8) to 2^(n/8) ms';
comment on column run_rollups.lateness_buckets is
  'of runs that succeeded, from the time when the last attempt was due (run_at) to its start; buckets as of durations';

-- One row. The times are the ends of what has been counted, checked, … without a gap.
create table rollup_progress (
  only_row              boolean primary key default true,
  rolled_up_at          timestamptz not null default 'epoch',
  is_behind             boolean not null default false,
  counted_until         timestamptz not null,
  checked_until         timestamptz not null,
  verified_until        timestamptz not null,
  days_until            timestamptz not null,
  details_deleted_until timestamptz not null,
  deleted_at            timestamptz not null default 'epoch',
  slice_minutes         integer not null default 4,
  recount_from          timestamptz,
  day_dimension         rollup_dimension,
  day_name              text collate "C",
  drop_waits_since      timestamptz,
  constraint there_is_one_progress check (only_row)
);
comment on table rollup_progress is 'How far roll_up has come. One row.';
comment on column rollup_progress.is_behind is 'the last call left work for the next one, which does not wait for its interval';
comment on column rollup_progress.counted_until is 'the minutes before are counted';
comment on column rollup_progress.checked_until is 'the hours before were compared with the history 10 minutes after they ended';
comment on column rollup_progress.verified_until is
  'the hours before were compared with the history 20 hours after they ended; they are exact';
comment on column rollup_progress.days_until is 'the days before have rows';
comment on column rollup_progress.details_deleted_until is 'the hours before have no rows of schedules and steps';
comment on column rollup_progress.slice_minutes is
  'how many minutes the next slice counts at most, so that it takes some tenths of a second';
comment on column rollup_progress.recount_from is 'the hour of checked_until or verified_until is counted again; the minutes before are';
comment on column rollup_progress.day_name is 'the day of days_until has rows up to this name';
comment on column rollup_progress.drop_waits_since is 'since when drop_partitions keeps a partition because nothing more was verified';

insert into rollup_progress (counted_until, checked_until, verified_until, days_until, details_deleted_until)
select hour, hour, hour, date_bin('1 day', hour, 'epoch'), hour
  from (select date_bin('1 hour', statement_timestamp(), 'epoch') as hour) as start;

-- `roll_up` writes here; nothing else does, and neither a claim nor a completion.
create table backlog_samples (
  sampled_at timestamptz primary key,
  due        bigint not null,
  constraint a_sample_is_of_a_whole_minute check (date_bin('1 minute', sampled_at, 'epoch') = sampled_at),
  constraint a_backlog_is_not_negative check (due >= 0)
);
comment on table backlog_samples is 'How many runs waited, once a minute while maintenance runs. Kept for 100 days.';
comment on column backlog_samples.due is 'runs that were due and not running, at most 100,000 of each queue and priority';
