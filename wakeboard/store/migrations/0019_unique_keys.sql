-- Unique windows: for a time, one run of a job type has the values of the keys that `enqueue` names.

create table job_unique_keys (
  job_type     text not null,
  key          bytea not null,                         -- a hash of the values (unique_key)
  run_id       bigint not null,
  run_uuid     uuid not null,
  unique_until timestamptz not null,
  constraint a_unique_key_has_one_run_per_job_type primary key (job_type, key)
);
create index job_unique_keys_until on job_unique_keys (unique_until);
comment on table job_unique_keys is 'Unique windows (unique_for), and the run of each.';
comment on column job_unique_keys.unique_until is 'from then on, another enqueue creates another run';

-- Both have three arguments more now. `migrate` writes their bodies. Roles keep rights that an administrator granted by hand.
create function enqueue(
  job_type text, payload jsonb default '{}', queue text default 'default', priority integer default 3,
  run_at timestamptz default null, idempotency_key text default null, limit_key text default null,
  max_attempts integer default 5, timeout_s integer default 600, backoff text default 'exponential',
  backoff_base_s integer default 10, backoff_cap_s integer default 3600,
  unique_for integer default null, unique_by text[] default null, if_exists text default 'keep')
returns table (id bigint, uuid uuid, created boolean) language plpgsql as 'begin end';
create function enqueue_many(
  job_types text[], payloads jsonb[], queues text[] default null, priorities integer[] default null,
  run_ats timestamptz[] default null, idempotency_keys text[] default null, limit_keys text[] default null,
  max_attempts integer default 5, timeout_s integer default 600,
  unique_for integer default null, unique_by text[] default null, if_exists text default 'keep')
returns table (id bigint, created boolean) language plpgsql as 'begin end';

do $$
declare
  one record;
begin
  for one in
    select former.oid::regprocedure as former, newer.oid::regprocedure as newer, granted.grantee::regrole as grantee,
           case when granted.is_grantable then 'with grant option' end as grantable
      from pg_proc as former
      join pg_proc as newer on newer.pronamespace = former.pronamespace and newer.proname = former.proname and newer.oid <> former.oid
     cross join lateral aclexplode(former.proacl) as granted
     where former.pronamespace = 'wakeboard'::regnamespace and former.proname in ('enqueue', 'enqueue_many')
       and newer.proargnames @> '{unique_for}' and granted.grantee not in (0, former.proowner)
  loop
    execute format('grant execute on function %s to %s %s', one.newer, one.grantee, one.grantable);
  end loop;
end
$$;
drop function if exists enqueue(text, jsonb, text, integer, timestamptz, text, text, integer, integer, text, integer, integer);
drop function if exists enqueue_many(text[], jsonb[], text[], integer[], timestamptz[], text[], text[], integer, integer);
