-- The limits that sources declare, beside those in force: an administrator may have set others since.

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
comment on column declared_limits.declared_at is 'when the source declared this limit first or changed it; the newest declaration of a key counts';
