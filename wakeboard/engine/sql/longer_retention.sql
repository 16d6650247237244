-- internal (called by delete_expired, drop_partitions, schedule_guarded, set_audit_retention and set_retention)
-- The longer of two retentions, `minimum` and `requested`, as an interval in seconds: an interval may mix positive months with negative
-- days. Null if both are null.

create or replace function wakeboard.longer_retention(minimum interval, requested interval)
returns interval language sql immutable security definer
as $$
  select make_interval(secs => greatest(
           extract(epoch from minimum), case when requested is not null
             then greatest(least(extract(epoch from requested), 1e9), -1e9) end)::double precision)
$$;
