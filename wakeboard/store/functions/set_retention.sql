-- for: operator
-- Sets how long the installation keeps finished runs, idempotency keys (after their run ended) and dead runs (null: forever), at least. A
-- day counts as 24 hours. Keys cannot be kept longer than history, because history stores when their run ended. Before the first call the
-- defaults of the table `installation` apply.
-- Example:
--   select wakeboard.set_retention('30 days', '7 days');

create or replace function wakeboard.set_retention(history interval, keys interval, dead interval default null)
returns void language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp
set lock_timeout = '2s'
as $$
begin
  update installation
     set min_history_retention = longer_retention(null, history), min_key_retention = longer_retention(null, keys),
         min_dead_retention = longer_retention(null, dead)
   where (min_history_retention, min_key_retention, min_dead_retention)
         is distinct from (longer_retention(null, history), longer_retention(null, keys), longer_retention(null, dead));
end
$$;
