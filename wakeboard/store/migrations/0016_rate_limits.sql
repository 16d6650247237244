-- Rate limits: how often the runs of a limit key may start.
-- locks: job_limits

alter table job_limits
  add column rate_count integer,
  add column rate_period_s integer,
  add column rate_burst integer,
  add column next_unit_at timestamptz not null default 'epoch',
  add column paused_until timestamptz not null default 'epoch',
  add constraint rate_is_1_to_1000000_per_1_to_2678400_s check (
    num_nulls(rate_count, rate_period_s, rate_burst) = 3
    or num_nulls(rate_count, rate_period_s, rate_burst) = 0 and rate_count between 1 and 1000000
       and rate_period_s between 1 and 2678400 and rate_burst between 1 and 1000000);
alter table job_limits set (fillfactor = 50);
comment on table job_limits is
  'How many runs of a limit key run at once, and how often they start. Keys schedule:ID belong to the schedule with that id.';
comment on column job_limits.max_running is 'the default: 1, or 1000000 (any number) beside a rate limit';
comment on column job_limits.is_explicit is 'an administrator set max_running; rows with the default and without a rate limit are deleted when unused';
comment on column job_limits.rate_count is 'rate_count units become free each rate_period_s seconds; each start of a run takes one. Null: no rate';
comment on column job_limits.rate_burst is 'how many units are free after a pause: so many runs start at once';
comment on column job_limits.next_unit_at is
  'when all units will be free again (the theoretical arrival time of GCRA)';
comment on column job_limits.paused_until is 'no run starts before; set by a handler, for example after an answer 429';

create domain unit_count as integer check (
  value between 1 and 1000000 or refuse_argument('units', value::text, 'a whole number from 1 to 1000000'));
create domain limit_pause_s as double precision check (
  value between 0 and 86400 or refuse_argument('pause_s', value::text, 'a number of seconds from 0 to 86400 (a day)'));
revoke usage on type unit_count, limit_pause_s from public;
