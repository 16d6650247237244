-- internal (called by backlog, claim_limited and next_due)
-- For each of the limit keys `keys` that belongs to one schedule or to a backfill of it: the limitKey of the schedule, if it has one. Their
-- runs need a slot of both, and a unit of the rate limit of the shared one. The other keys have no row.

create or replace function wakeboard.shared_limit_keys(keys text[])
returns table (key text, shared_key text) language plpgsql stable security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
begin
  return query
  select own.key, def.limit_key::text
    from (select listed.key, case when listed.key ~ '^schedule:[0-9]{1,18}$' then substr(listed.key, 10)::bigint end as id
            from unnest(keys) as listed (key)) as own
    join job_definitions as def on def.id = own.id
   where def.limit_key is not null;
  if exists (select from unnest(keys) as listed (key) where starts_with(listed.key, 'backfill:')) then
    return query
    select own.key, def.limit_key::text
      from (select listed.key, case when listed.key ~ '^backfill:[0-9]{1,18}$' then substr(listed.key, 10)::bigint end as id
              from unnest(keys) as listed (key)) as own
      join backfills as job on job.id = own.id
      join job_definitions as def on def.id = job.definition_id
     where def.limit_key is not null;
  end if;
end
$$;
