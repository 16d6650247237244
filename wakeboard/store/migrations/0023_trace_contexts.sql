-- The trace context (W3C) of the enqueue: in a table of its own, which only workers with OpenTelemetry read.

create table job_trace_contexts (
  run_id      bigint primary key,
  traceparent text not null,
  tracestate  text,
  created_at  timestamptz not null default statement_timestamp(),
  constraint traceparent_is_55_characters check (char_length(traceparent) = 55),
  constraint tracestate_is_at_most_512_characters check (char_length(tracestate) <= 512)
);
create index job_trace_contexts_created on job_trace_contexts (created_at);
comment on table job_trace_contexts is 'The trace contexts (W3C) of the enqueues of runs.';

-- Both have two arguments more now. `migrate` writes their bodies. Roles keep rights that an administrator granted by hand.
create function enqueue(
  job_type text, payload jsonb default '{}', queue text default 'default', priority integer default 3,
  run_at timestamptz default null, idempotency_key text default null, limit_key text default null,
  max_attempts integer default 5, timeout_s integer default 600, backoff text default 'exponential',
  backoff_base_s integer default 10, backoff_cap_s integer default 3600,
  unique_for integer default null, unique_by text[] default null, if_exists text default 'keep',
  traceparent text default null, tracestate text default null)
returns table (id bigint, uuid uuid, created boolean) language plpgsql as 'begin end';
create function enqueue_many(
  job_types text[], payloads jsonb[], queues text[] default null, priorities integer[] default null,
  run_ats timestamptz[] default null, idempotency_keys text[] default null, limit_keys text[] default null,
  max_attempts integer default 5, timeout_s integer default 600,
  unique_for integer default null, unique_by text[] default null, if_exists text default 'keep',
  traceparent text default null, tracestate text default null)
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
       and newer.proargnames @> '{traceparent}' and granted.grantee not in (0, former.proowner)
  loop
    execute format('grant execute on function %s to %s %s', one.newer, one.grantee, one.grantable);
  end loop;
end
$$;
drop function if exists enqueue(
  text, jsonb, text, integer, timestamptz, text, text, integer, integer, text, integer, integer, integer, text[], text);
drop function if exists enqueue_many(
  text[], jsonb[], text[], integer[], timestamptz[], text[], text[], integer, integer, integer, text[], text);

-- The annotation run-now may come with a trace context.
create function run_annotation_action(
  definition definition_number, action annotation_action, token annotation_token, record_only switch default false,
  traceparent text default null)
returns table (result text, acted_at timestamptz, new boolean) language plpgsql as 'begin end';
drop function if exists run_annotation_action(definition_number, annotation_action, annotation_token, switch);
