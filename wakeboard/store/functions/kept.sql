-- for: nobody (other moves call it)
-- For how long something is kept that is kept `at_least` so long and was asked to be kept for `asked`: the longer one, in seconds alone,
-- so that months and days of opposite signs mean what their sum is. Null: nobody says.

create or replace function wakeboard.kept(at_least interval, asked interval)
returns interval language sql immutable security definer
set search_path = pg_catalog, wakeboard, pg_temp
as $$
  select make_interval(secs => greatest(
           extract(epoch from at_least), case when asked is not null then least(extract(epoch from asked), 1e9) end)::double precision)
$$;
