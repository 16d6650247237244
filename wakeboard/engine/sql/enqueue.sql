-- for: client, worker, operator
-- Enqueues a run in the caller's transaction and returns its id, uuid and status. Job types that begin with `wakeboard.` are refused
-- (22023): the product itself makes their runs. `run_at` null: due now. `priority`: 1 to 5, 5 first. A null in place of another argument
-- than the job type means its default. Raises 22023 if `backoff_cap_s` is below `backoff_base_s`, also if the backoff is 'fixed'. With an
-- idempotency key, the first call creates the run. Later calls return the same run with created = false, while it is live and for the key
-- retention after it ended. Raises WB002 if the key belongs to a run with another payload (null equals absent). The status of an earlier
-- run is null if it has ended: a dead one has not, and keeps its key. Uuid and status of an earlier run are null unless the caller acts as
-- the role that enqueued it, or as a member of this role. With `unique_for` (seconds), one run of the job type has the values of the
-- payload's keys `unique_by` (at most 16 names; null: the whole payload) from when it is enqueued until `unique_for` has passed. Calls
-- within this time return it with created = false, even if it has ended. `if_exists`: 'keep' leaves it as it is. 'replace' gives it the new
-- payload and `run_at` while it is queued or failed; its attempts and its time begin again, and everything else stays. A run that waits for
-- other runs, is running, dead or has ended is left as it is. Raises 42501 if the caller would not get its uuid. `traceparent` and
-- `tracestate`: the trace context (W3C) of the caller, which the spans of the run's attempts continue. A malformed one is dropped. With
-- `after` (ids of up to 1,000 runs), the run waits until all of them have succeeded: its run_at is the end of the year 2999 until then, and
-- at least the given one afterwards. A dead one blocks it until a retry succeeds. Raises 22023 if one of them does not exist, was
-- cancelled, skipped or discarded, or has another uuid than `after_uuids` says (as long as `after`, with nulls where only the id is known):
-- a database that has lost its last commits gives ids again. Only roles that may read all runs may leave a uuid out. A run that exists
-- already (created = false) is left as it is. Until the caller's transaction ends, those runs cannot be claimed or completed.
-- Example:
--   select * from wakeboard.enqueue('send_mail', '{"to": 42}', idempotency_key => 'order-42');
--   select * from wakeboard.enqueue('sync', '{"customer": 7}', unique_for => 3600, unique_by => '{customer}');

create or replace function wakeboard.enqueue(
  job_type text, payload jsonb default '{}', queue text default 'default', priority integer default 3,
  run_at timestamptz default null, idempotency_key text default null, limit_key text default null,
  max_attempts integer default 5, timeout_s integer default 600, backoff text default 'exponential',
  backoff_base_s integer default 10, backoff_cap_s integer default 3600,
  unique_for integer default null, unique_by text[] default null, if_exists text default 'keep',
  traceparent text default null, tracestate text default null, after bigint[] default null, after_uuids uuid[] default null)
returns table (id bigint, uuid uuid, created boolean, status text) language plpgsql security definer
as $$
#variable_conflict use_column
declare
  new_id bigint := nextval('job_runs_id_seq');
  new_uuid uuid := gen_random_uuid();
  hash text;
  known job_keys;
  usable boolean;                      -- the caller may use the run of the key
begin
  if job_type is null or job_type like 'wakeboard.%' or limit_key like '%:%' or priority not between 1 and 5
    or backoff not in ('exponential', 'fixed')
     or unique_for is not null or unique_by is not null or if_exists <> 'keep'
     or max_attempts not between 1 and 1000 or greatest(timeout_s, backoff_base_s, backoff_cap_s) > 2678400
     or least(timeout_s, backoff_base_s, backoff_cap_s) < 1 or enqueue.run_at < 'epoch' or enqueue.run_at >= '3000-01-01 00:00+00'
     or coalesce(backoff_cap_s, 3600) < coalesce(backoff_base_s, 10)
     or after is not null then         -- one IF for all checks, because each IF costs a microsecond
    if after is not null then
      return query
      with made as materialized (
        select * from enqueue(job_type, payload, queue, priority, run_at, idempotency_key, limit_key, max_attempts, timeout_s, backoff,
                              backoff_base_s, backoff_cap_s, unique_for, unique_by, if_exists, traceparent, tracestate)
      )
      select made.* from made where wait_for_runs(made.id, case when made.created then after end, after_uuids);
      return;
    end if;
    perform refuse_argument('job_type', null, 'the name of a job type') where job_type is null;
    perform refuse_value('reserved job_type', job_type) where job_type like 'wakeboard.%';
    perform refuse_value('limit_key', limit_key) where limit_key like '%:%';     -- the keys of schedules
    perform refuse_value('priority', priority::text) where priority not between 1 and 5;
    perform refuse_value('backoff', backoff) where backoff not in ('exponential', 'fixed');
    perform refuse_argument('max_attempts', max_attempts::text, 'a whole number from 1 to 1000') where max_attempts not between 1 and 1000;
    perform refuse_argument(given.name, given.value::text, 'a number of seconds from 1 to 2678400 (31 days)')
       from (values ('timeout_s', timeout_s), ('backoff_base_s', backoff_base_s), ('backoff_cap_s', backoff_cap_s)) as given (name, value)
      where given.value not between 1 and 2678400;
    perform check_backoff(coalesce(backoff_base_s, 10), coalesce(backoff_cap_s, 3600));
    perform refuse_argument('run_at', enqueue.run_at::text, 'a time from 1970 to 2999')
      where enqueue.run_at < 'epoch' or enqueue.run_at >= '3000-01-01 00:00+00';
    perform check_unique(unique_for, unique_by, if_exists, enqueue.idempotency_key is not null)
      where unique_for is not null or unique_by is not null or if_exists <> 'keep';
    perform queue::queue_name, limit_key::limit_key_name;     -- also if the run exists
    return query
    select run_id, run_uuid, false, run_status
      from unique_run(enqueue.job_type::job_type_name, unique_key(coalesce(payload, '{}')::run_payload, unique_by), unique_for, new_id,
        new_uuid,
                      coalesce(if_exists = 'replace', false), coalesce(payload, '{}'), coalesce(enqueue.run_at, statement_timestamp()));
    if found then
      return;
    end if;
  end if;
  declare
    -- The session caches the casts of assignments, but not those of an INSERT: so the values are checked here. They are declared with their
    -- values, because PL/pgSQL would otherwise check a null against each type.
    checked_type job_type_name := job_type;
    checked_payload run_payload := coalesce(payload, '{}');
    checked_queue queue_name := coalesce(queue, 'default');
    checked_key limit_key_name := limit_key;
    checked_priority run_priority := coalesce(priority, 3);
    checked_attempts attempt_limit := coalesce(max_attempts, 5);
    checked_timeout duration_s := coalesce(timeout_s, 600);
    checked_base duration_s := coalesce(backoff_base_s, 10);
    checked_cap duration_s := coalesce(backoff_cap_s, 3600);
  begin
    if enqueue.idempotency_key is not null then
      hash := md5(jsonb_strip_nulls(checked_payload)::text);                    -- null equals absent
      loop
        insert into job_keys (job_type, key, run_id, run_uuid, payload_hash)
        values (enqueue.job_type, enqueue.idempotency_key, new_id, new_uuid, hash)
        on conflict on constraint an_idempotency_key_is_used_once_per_job_type do nothing;
        exit when found;
        select * into known from job_keys
         where job_keys.job_type = enqueue.job_type and job_keys.key = enqueue.idempotency_key;
        if found then
          if known.payload_hash not in (hash, md5(checked_payload::text)) then  -- an earlier version stored the second
            raise exception using errcode = 'WB002', message = format(
              'the idempotency key %L of %s belongs to run %s, which has another payload',
              enqueue.idempotency_key, enqueue.job_type, known.run_id);
          end if;
          usable := may_use_run_of(known.created_by);
          perform wait_for_standby();
          return query select known.run_id, case when usable then known.run_uuid end, false,
                              (select status::text from job_runs where usable and id = known.run_id);
          return;
        end if;                              -- the key was deleted between the two statements: try again
      end loop;
    end if;
    insert into job_runs (
      id, uuid, scheduled_for, run_at, backoff_strategy, backoff_base_s, backoff_cap_s, timeout_s, max_attempts, priority, queue,
      job_type, payload, limit_key, idempotency_key)
    overriding system value
    values (
      new_id, new_uuid, coalesce(enqueue.run_at, statement_timestamp()), coalesce(enqueue.run_at, statement_timestamp()),
      coalesce(enqueue.backoff, 'exponential')::backoff_strategy, checked_base, checked_cap, checked_timeout, checked_attempts,
      checked_priority, checked_queue,
      checked_type, checked_payload, checked_key, enqueue.idempotency_key);
    if traceparent is not null then
      perform record_trace_context(array[new_id], traceparent, tracestate);
    end if;
  end;
  id := new_id;
  uuid := new_uuid;
  created := true;
  status := 'queued';
  return next;                             -- takes half the time of RETURN QUERY
end
$$;
