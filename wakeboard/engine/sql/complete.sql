-- for: worker
-- `complete_many` for runs that are all leased under one `epoch`.
-- Example:
--   select wakeboard.complete(7, '{1}', 1, '{"1": {"sent": 3}}');

create or replace function wakeboard.complete(worker bigint, ids bigint[], epoch bigint, results jsonb default null,
  timed_ids bigint[] default null, started_s_ago real[] default null, ended_s_ago real[] default null)
returns setof bigint language plpgsql security definer
as $$
begin
  perform worker::worker_number, ids::id_array, epoch::lease_number;
  return query
  select complete_many(worker, ids, array_fill(epoch, array[cardinality(ids)]), results, timed_ids, started_s_ago, ended_s_ago);
end
$$;
