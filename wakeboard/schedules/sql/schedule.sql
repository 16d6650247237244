-- for: scheduler
-- Creates a schedule in the caller's transaction, or edits the one of this name, and returns its id and 'created', 'updated' or
-- 'unchanged'. It exists if, and only if, the transaction commits. `name`: namespace/name, or a name in the namespace `default`. `cron`:
-- the expression (null: it runs only on demand). The other arguments are the fields of a JobSchedule, with its defaults and bounds. A null
-- in place of another argument than the name and the job type means its default. Raises 22023 for a value that `kubectl apply` refuses,
-- with its sentence, and for a name that a cluster or a folder declares. Of two callers with one name, the second waits for the first, at
-- most 2 seconds; then it raises 55P03. Another definition is the next generation. A repeat changes nothing and locks nothing.
-- Example:
--   select * from wakeboard.schedule('customers/42-report', 'send_report', '{"customer": 42}', '0 8 * * MON', 'America/New_York');

create or replace function wakeboard.schedule(
  name text, job_type text, payload jsonb default '{}', cron text default null, time_zone text default 'Etc/UTC',
  queue text default 'default', priority integer default 3, limit_key text default null, concurrency_policy text default 'Allow',
  catch_up text default 'Latest', catch_up_limit integer default 100, starting_deadline_s integer default null,
  jitter_s integer default 0, dst_gap text default 'RunAfter', dst_overlap text default 'First', suspended boolean default false,
  suspend_after_dead integer default null, max_attempts integer default 5, timeout_s integer default 600,
  backoff text default 'exponential', backoff_base_s integer default 10, backoff_cap_s integer default 3600)
returns table (id bigint, answer text) language plpgsql security definer
set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  known job_definitions;
  wanted job_definitions;
begin
  if name is null or job_type is null or priority not between 1 and 5 or max_attempts not between 1 and 1000
     or backoff not in ('exponential', 'fixed') or greatest(timeout_s, backoff_base_s, backoff_cap_s) > 2678400
     or least(timeout_s, backoff_base_s, backoff_cap_s) < 1 then       -- as in enqueue.sql
    perform refuse_argument('name', null, 'namespace/name') where name is null;
    perform refuse_argument('job_type', null, 'the name of a job type') where job_type is null;
    perform refuse_value('priority', priority::text) where priority not between 1 and 5;
    perform refuse_argument('max_attempts', max_attempts::text, 'a whole number from 1 to 1000') where max_attempts not between 1 and 1000;
    perform refuse_value('backoff', backoff) where backoff not in ('exponential', 'fixed');
    perform refuse_argument(given.name, given.value::text, 'a number of seconds from 1 to 2678400 (31 days)')
       from (values ('timeout_s', timeout_s), ('backoff_base_s', backoff_base_s), ('backoff_cap_s', backoff_cap_s)) as given (name, value)
      where given.value not between 1 and 2678400;
  end if;
  wanted.namespace := case when strpos(schedule.name, '/') = 0 then 'default' else split_part(schedule.name, '/', 1) end;
  wanted.name := substr(schedule.name, strpos(schedule.name, '/') + 1);
  wanted.job_type := schedule.job_type;
  wanted.payload := coalesce(schedule.payload, '{}');
  wanted.schedule := cron;
  wanted.time_zone := coalesce(schedule.time_zone, 'Etc/UTC');
  wanted.queue := coalesce(schedule.queue, 'default');
  wanted.priority := coalesce(schedule.priority, 3);
  wanted.limit_key := schedule.limit_key;
  wanted.concurrency_policy := coalesce(schedule.concurrency_policy, 'Allow');
  wanted.catch_up := coalesce(schedule.catch_up, 'Latest');
  wanted.catch_up_limit := coalesce(schedule.catch_up_limit, 100);
  wanted.starting_deadline_s := schedule.starting_deadline_s;
  wanted.jitter_s := coalesce(schedule.jitter_s, 0);
  wanted.dst_gap := coalesce(schedule.dst_gap, 'RunAfter');
  wanted.dst_overlap := coalesce(schedule.dst_overlap, 'First');
  wanted.suspended := coalesce(schedule.suspended, false);
  wanted.suspend_after_dead := schedule.suspend_after_dead;
  wanted.max_attempts := coalesce(schedule.max_attempts, 5);
  wanted.timeout_s := coalesce(schedule.timeout_s, 600);
  wanted.backoff_strategy := coalesce(backoff, 'exponential');
  wanted.backoff_base_s := coalesce(schedule.backoff_base_s, 10);
  wanted.backoff_cap_s := coalesce(schedule.backoff_cap_s, 3600);
  answer := null;
  loop
    select * into known from job_definitions as def
     where def.source = 'app' and def.namespace = wanted.namespace and def.name = wanted.name;
    exit when found;
    insert into job_definitions (
      namespace, name, job_type, payload, schedule, time_zone, queue, priority, limit_key, concurrency_policy, catch_up, catch_up_limit,
      starting_deadline_s, jitter_s, dst_gap, dst_overlap, suspended, suspend_after_dead, max_attempts, timeout_s, backoff_strategy,
      backoff_base_s, backoff_cap_s)
    values (
      wanted.namespace, wanted.name, wanted.job_type, wanted.payload, wanted.schedule, wanted.time_zone, wanted.queue, wanted.priority,
      wanted.limit_key, wanted.concurrency_policy, wanted.catch_up, wanted.catch_up_limit, wanted.starting_deadline_s, wanted.jitter_s,
      wanted.dst_gap, wanted.dst_overlap, wanted.suspended, wanted.suspend_after_dead, wanted.max_attempts, wanted.timeout_s,
      wanted.backoff_strategy, wanted.backoff_base_s, wanted.backoff_cap_s)
    on conflict on constraint a_schedule_is_named_once_per_source do nothing
    returning job_definitions.id into schedule.id;
    if found then
      answer := 'created';
      return next;
      return;
    end if;                                  -- another transaction has just created it
  end loop;
  id := known.id;
  if known.removed_at is null
     and (known.job_type, known.payload, known.schedule, known.time_zone, known.queue, known.priority, known.limit_key,
          known.concurrency_policy, known.catch_up, known.catch_up_limit, known.starting_deadline_s, known.jitter_s, known.dst_gap,
          known.dst_overlap, known.suspended, known.suspend_after_dead, known.max_attempts, known.timeout_s, known.backoff_strategy,
          known.backoff_base_s, known.backoff_cap_s)
         is not distinct from
         (wanted.job_type, wanted.payload, wanted.schedule, wanted.time_zone, wanted.queue, wanted.priority, wanted.limit_key,
          wanted.concurrency_policy, wanted.catch_up, wanted.catch_up_limit, wanted.starting_deadline_s, wanted.jitter_s, wanted.dst_gap,
          wanted.dst_overlap, wanted.suspended, wanted.suspend_after_dead, wanted.max_attempts, wanted.timeout_s, wanted.backoff_strategy,
          wanted.backoff_base_s, wanted.backoff_cap_s) then
    answer := 'unchanged';
    return next;
    return;
  end if;
  update job_definitions as def
     set job_type = wanted.job_type, payload = wanted.payload, schedule = wanted.schedule, time_zone = wanted.time_zone,
         queue = wanted.queue, priority = wanted.priority, limit_key = wanted.limit_key, concurrency_policy = wanted.concurrency_policy,
         catch_up = wanted.catch_up, catch_up_limit = wanted.catch_up_limit, starting_deadline_s = wanted.starting_deadline_s,
         jitter_s = wanted.jitter_s, dst_gap = wanted.dst_gap, dst_overlap = wanted.dst_overlap, suspended = wanted.suspended,
         suspend_after_dead = wanted.suspend_after_dead, max_attempts = wanted.max_attempts, timeout_s = wanted.timeout_s,
         backoff_strategy = wanted.backoff_strategy, backoff_base_s = wanted.backoff_base_s, backoff_cap_s = wanted.backoff_cap_s,
         removed_at = null
   where def.id = known.id;
  answer := 'updated';
  return next;
exception when lock_not_available then
  perform refuse_locked();
end
$$;
