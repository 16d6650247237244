-- for: scheduler
-- Creates or edits many schedules in the caller's transaction, all or none. `schedules`: an array of objects whose keys are the arguments
-- of `schedule`. Returns, in order, what `schedule` returns for each. A refusal names the place of the schedule in the array.
-- Example:
--   select * from wakeboard.schedule_many('[{"name": "customers/42", "job_type": "report", "cron": "@daily"}]');

create or replace function wakeboard.schedule_many(schedules jsonb)
returns table (id bigint, answer text) language plpgsql security definer
set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  known constant text[] := array[
    'name', 'job_type', 'payload', 'cron', 'time_zone', 'queue', 'priority', 'limit_key', 'concurrency_policy', 'catch_up',
    'catch_up_limit', 'starting_deadline_s', 'jitter_s', 'dst_gap', 'dst_overlap', 'suspended', 'suspend_after_dead', 'max_attempts',
    'timeout_s', 'backoff', 'backoff_base_s', 'backoff_cap_s'];
  one record;
  place bigint := -1;
  named text;
begin
  if schedules is null or jsonb_typeof(schedules) <> 'array' or schedules @? 'strict $[*] ? (@.type() != "object")' then
    perform refuse_argument('schedules', schedules::text, 'an array of objects, one for each schedule');
  end if;
  perform refuse_argument('schedules', found.key, 'only arguments of wakeboard.schedule as keys')
     from (select distinct key from jsonb_array_elements(schedules) as given (value) cross join jsonb_object_keys(value) as key) as found
    where found.key <> all (known);
  for one in
    select * from jsonb_to_recordset(schedules) as wanted (
      name text, job_type text, payload jsonb, cron text, time_zone text, queue text, priority integer, limit_key text,
      concurrency_policy text, catch_up text, catch_up_limit integer, starting_deadline_s integer, jitter_s integer, dst_gap text,
      dst_overlap text, suspended boolean, suspend_after_dead integer, max_attempts integer, timeout_s integer, backoff text,
      backoff_base_s integer, backoff_cap_s integer)
  loop
    place := place + 1;
    named := coalesce(one.name, '');
    select made.id, made.answer into schedule_many.id, schedule_many.answer
      from schedule(one.name, one.job_type, one.payload, one.cron, one.time_zone, one.queue, one.priority, one.limit_key,
                    one.concurrency_policy, one.catch_up, one.catch_up_limit, one.starting_deadline_s, one.jitter_s, one.dst_gap,
                    one.dst_overlap, one.suspended, one.suspend_after_dead, one.max_attempts, one.timeout_s, one.backoff,
                    one.backoff_base_s, one.backoff_cap_s) as made;
    return next;
  end loop;
exception when data_exception or check_violation then
  raise exception using errcode = '22023', message = case
    when named is not null then format('schedules[%s] (%s): %s', place, left(named, 130), sqlerrm)
    when sqlstate = '22023' then sqlerrm
    else 'schedules holds a value of the wrong type: ' || sqlerrm end;
end
$$;
