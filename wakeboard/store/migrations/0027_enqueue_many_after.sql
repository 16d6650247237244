-- enqueue_many has one argument more now. `migrate` writes its body. Roles keep rights that an administrator granted by hand.
create function enqueue_many(
  job_types text[], payloads jsonb[], queues text[] default null, priorities integer[] default null,
  run_ats timestamptz[] default null, idempotency_keys text[] default null, limit_keys text[] default null,
  max_attempts integer default 5, timeout_s integer default 600,
  unique_for integer default null, unique_by text[] default null, if_exists text default 'keep',
  traceparent text default null, tracestate text default null, after jsonb default null)
returns table (id bigint, created boolean) language plpgsql as 'begin end';

do $$
declare
  one record;
begin
  for one in
    select newer.oid::regprocedure as newer, granted.grantee::regrole as grantee,
           case when granted.is_grantable then 'with grant option' end as grantable
      from pg_proc as former
      join pg_proc as newer on newer.pronamespace = former.pronamespace and newer.proname = former.proname and newer.oid <> former.oid
     cross join lateral aclexplode(former.proacl) as granted
     where former.pronamespace = 'wakeboard'::regnamespace and former.proname = 'enqueue_many'
       and newer.proargnames @> '{after}' and granted.grantee not in (0, former.proowner)
  loop
    execute format('grant execute on function %s to %s %s', one.newer, one.grantee, one.grantable);
  end loop;
end
$$;
drop function if exists enqueue_many(
  text[], jsonb[], text[], integer[], timestamptz[], text[], text[], integer, integer, integer, text[], text, text, text);
