-- for: operator
-- Sets the minimum retention of finished runs, of idempotency keys (after their run ended) and of dead runs (null: for ever). A day
-- counts as 24 hours. Keys cannot be kept longer than history, because history stores when their run ended.

create or replace function wakeboard.set_retention(history interval, keys interval, dead interval default null)
returns void language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp
set lock_timeout = '2s'
as $$
begin
  update installation
     set history_kept = kept(null, history), keys_kept = kept(null, keys), dead_kept = kept(null, dead)
   where (history_kept, keys_kept) is distinct from (kept(null, history), kept(null, keys)) or dead_kept is distinct from kept(null, dead);
end
$$;
