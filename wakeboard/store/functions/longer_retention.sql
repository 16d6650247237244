-- for: nobody (other moves call it)
-- The longer of two retentions, the minimum `at_least` and the requested `asked`, as an interval of seconds only: an interval may mix
-- positive months with negative days. Null if both are null.

create or replace function wakeboard.longer_retention(at_least interval, asked interval)
returns interval language sql immutable security definer
set search_path = pg_catalog, wakeboard, pg_temp
as $$
  select make_interval(secs => greatest(
           extract(epoch from at_least), case when asked is not null then least(extract(epoch from asked), 1e9) end)::double precision)
$$;
