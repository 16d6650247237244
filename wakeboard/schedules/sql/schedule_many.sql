-- for: scheduler
-- Creates or edits many schedules in the caller's transaction, all or none. `schedules`: an array of objects whose keys are the arguments
-- of `schedule`, times with their zone. Returns, in their order, what `schedule` returns for each, but creates new ones first, and edits
-- the others in the order of their names, so that two such calls never deadlock. A refusal of one of several names its place in the array.
-- Example:
--   select * from wakeboard.schedule_many('[{"name": "customers/42", "job_type": "report", "cron": "@daily"}]');

create or replace function wakeboard.schedule_many(schedules jsonb)
returns table (id bigint, answer text) language plpgsql security definer
set enable_seqscan = off set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  known constant text[] := array[
    'name', 'job_type', 'payload',
    -- arguments: '{name}'
    'cron', 'time_zone', 'queue', 'priority', 'limit_key', 'concurrency_policy', 'catch_up', 'catch_up_limit', 'starting_deadline_s',
    'jitter_s', 'dst_gap', 'dst_overlap', 'suspended', 'suspend_after_dead', 'max_attempts', 'timeout_s', 'backoff', 'backoff_base_s',
    'backoff_cap_s', 'every', 'at', 'starts_at', 'ends_at', 'expect_success_within_s', 'alert_after_missed'
    -- end
  ];
  keys text[];
  one record;
  current text;                              -- its name
  ids bigint[];
  answers text[];
begin
  if schedules is null or jsonb_typeof(schedules) <> 'array' or schedules @? 'strict $[*] ? (@.type() != "object")' then
    perform refuse_argument('schedules', schedules::text, 'an array of objects, one for each schedule');
  end if;
  keys := array(select distinct key from jsonb_array_elements(schedules) as given (value) cross join jsonb_object_keys(value) as key);
  perform refuse_argument('a key of schedules', key, 'an argument of wakeboard.schedule')
     from unnest(keys) as key where key <> all (known);
  perform refuse_argument(key, options ->> key, 'a time with its zone, such as 2027-01-04T08:00:00Z')
     from unnest(array['at', 'starts_at', 'ends_at']) as key cross join lateral jsonb_array_elements(schedules) as given (options)
    where key = any (keys)
      and options ->> key !~* '^-?infinity$|[t ][0-9:.]+ ?(z|utc|gmt|[+-][0-9]{2}(:?[0-9]{2}){0,2}|[a-z_]+/[a-z_/+-]+)( bc)?$';
  if jsonb_array_length(schedules) > 1 and (select max_schedules_per_namespace from installation where only_row) is not null then
    perform lock_namespace(in_namespace)
       from (select distinct in_namespace
               from jsonb_array_elements(schedules) as given (value)
              cross join lateral (select coalesce(value ->> 'name', '') as name) as named
              cross join lateral (select case when strpos(name, '/') = 0 then 'default' else split_part(name, '/', 1) end as in_namespace,
                                         substr(name, strpos(name, '/') + 1) as short) as parts
              where not exists (select from job_definitions as def
                                 where def.source = 'app' and def.namespace = in_namespace and def.name = short
                                   and def.removed_at is null)
              order by in_namespace) as growing;       -- those that may get new ones
  end if;
  for one in
    with wanted as materialized (
      select wanted.*, case when strpos(wanted.name, '/') = 0 then 'default' else split_part(wanted.name, '/', 1) end as in_namespace,
             substr(wanted.name, strpos(wanted.name, '/') + 1) as short,
             case when num_nonnulls(every, at) = 0 then cron else schedule_line(cron, every, at) end as line
        from rows from (jsonb_to_recordset(schedules) as (
               name text, job_type text, payload jsonb,
               -- arguments: {name} {type}
               cron text, time_zone text, queue text, priority integer, limit_key text, concurrency_policy text, catch_up text,
               catch_up_limit integer, starting_deadline_s integer, jitter_s integer, dst_gap text, dst_overlap text, suspended boolean,
               suspend_after_dead integer, max_attempts integer, timeout_s integer, backoff text, backoff_base_s integer,
               backoff_cap_s integer, every interval, at timestamptz, starts_at timestamptz, ends_at timestamptz,
               expect_success_within_s integer, alert_after_missed integer
               -- end
             )) with ordinality as wanted (
               name, job_type, payload,
               -- arguments: {name}
               cron, time_zone, queue, priority, limit_key, concurrency_policy, catch_up, catch_up_limit, starting_deadline_s, jitter_s,
               dst_gap, dst_overlap, suspended, suspend_after_dead, max_attempts, timeout_s, backoff, backoff_base_s, backoff_cap_s, every,
               at, starts_at, ends_at, expect_success_within_s, alert_after_missed
               -- end
             , place)
    ), made as (                             -- the new ones, in one statement: each statement reads all constraints of the table
      insert into job_definitions (
        namespace, name, job_type, payload, schedule,
        -- columns: {column}
        time_zone, queue, priority, limit_key, concurrency_policy, catch_up, catch_up_limit, starting_deadline_s, jitter_s, dst_gap,
        dst_overlap, suspended, suspend_after_dead, max_attempts, timeout_s, backoff_strategy, backoff_base_s, backoff_cap_s, starts_at,
        ends_at, expect_success_within_s, alert_after_missed
        -- end
      )
      select in_namespace, short, job_type, coalesce(payload, '{}'), line,
             -- columns: {given}
             coalesce(time_zone, 'Etc/UTC'), coalesce(queue, 'default'), coalesce(priority, 3), limit_key,
             coalesce(concurrency_policy, 'Allow'), coalesce(catch_up, 'Latest'), coalesce(catch_up_limit, 100), starting_deadline_s,
             coalesce(jitter_s, 0), coalesce(dst_gap, 'RunAfter'), coalesce(dst_overlap, 'First'), coalesce(suspended, false),
             suspend_after_dead, coalesce(max_attempts, 5), coalesce(timeout_s, 600), coalesce(backoff, 'exponential')::backoff_strategy,
             coalesce(backoff_base_s, 10), coalesce(backoff_cap_s, 3600), starts_at, ends_at, expect_success_within_s, alert_after_missed
             -- end
        from (select distinct on (in_namespace, short) * from wanted order by in_namespace, short, place) as firsts
       where jsonb_array_length(schedules) > 1 and short <> ''         -- `schedule` refuses that
         and not exists (select from job_definitions as def
                          where def.source = 'app' and def.namespace = in_namespace and def.name = short)
       order by in_namespace collate "C", short collate "C"
      on conflict on constraint a_schedule_is_named_once_per_source do nothing
      returning id, namespace, name
    )
    select wanted.*, made.id as made_id,
           row_number() over (partition by in_namespace, short order by wanted.place) = 1 as is_first
      from wanted left join made on made.namespace = in_namespace and made.name = short
     order by in_namespace collate "C", short collate "C", wanted.place
  loop
    current := one.name;
    id := one.made_id;
    answer := case when one.ends_at <= statement_timestamp() then 'ended' else 'created' end;
    if id is null or not one.is_first then
      select done.id, done.answer into schedule_many.id, schedule_many.answer
        from schedule(one.name, one.job_type, one.payload,
               -- arguments: one.{name}
               one.cron, one.time_zone, one.queue, one.priority, one.limit_key, one.concurrency_policy, one.catch_up, one.catch_up_limit,
               one.starting_deadline_s, one.jitter_s, one.dst_gap, one.dst_overlap, one.suspended, one.suspend_after_dead, one.max_attempts,
               one.timeout_s, one.backoff, one.backoff_base_s, one.backoff_cap_s, one.every, one.at, one.starts_at, one.ends_at,
               one.expect_success_within_s, one.alert_after_missed
               -- end
             ) as done;
    end if;
    ids[one.place] := id;
    answers[one.place] := answer;
  end loop;
  return query select * from unnest(ids, answers);
exception
  when lock_not_available then
    if sqlerrm like '%; try again' then      -- a sentence of ours, such as the one about a bound
      raise exception using errcode = '55P03', message = concat(current || ': ', sqlerrm);
    end if;
    perform refuse_locked(coalesce(current, created_elsewhere(
      array(select value ->> 'name' from jsonb_array_elements(schedules) as value))));
  when data_exception or check_violation or not_null_violation then
    if (case jsonb_typeof(schedules) when 'array' then jsonb_array_length(schedules) > 1 end) then     -- find the wrong one
      for place in 0 .. jsonb_array_length(schedules) - 1 loop
        begin
          perform schedule_many(jsonb_build_array(schedules -> place));
        exception when data_exception then
          raise exception using errcode = '22023', message = format(
            'schedules[%s] (%s): %s', place, shortened(schedules -> place ->> 'name', 130), sqlerrm);
        end;
      end loop;
    end if;
    perform check_schedule_values(schedules -> 0) where jsonb_typeof(schedules -> 0) = 'object';
    raise exception using errcode = '22023', message = sqlerrm;
end
$$;
