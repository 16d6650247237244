-- for: scheduler
-- Creates a schedule in the caller's transaction, or edits the one of this name, and returns its id and 'created' (also again, after a
-- removal), 'updated', 'unchanged' or 'ended': then it has no ticks, because `ends_at` has passed, its one moment is not after its newest
-- tick, or its last tick was handled before. It exists if, and only if, the transaction commits. `name`: namespace/name, or a name in the
-- namespace `default`. `cron`: the expression. Instead of it, `every` is an interval of real time, counted from `starts_at` or from 1970,
-- and `at` is one moment; without them it runs only on demand. It has no ticks before `starts_at` and none after `ends_at`. After its last
-- tick it removes itself. The other arguments are the fields of a JobSchedule, with its defaults and bounds. A null in place of another
-- argument than the name and the job type means its default. Raises 22023 for a value that `kubectl apply` refuses, with its sentence, and
-- for a name that a cluster or a folder declares. Of two callers with one name, the second waits for the first, at most 2 seconds; then it
-- raises 55P03. Another definition is the next generation; null equals absent in the payload. A repeat changes nothing, and locks nothing,
-- but waits for another transaction that has locked the schedule, too.
-- Example:
--   select * from wakeboard.schedule('customers/42-trial', 'trial_ends', '{"customer": 42}', at => '2027-01-04 08:00+00');
--   select * from wakeboard.schedule('customers/42-report', 'send_report', '{"customer": 42}', '0 8 * * MON', 'America/New_York');

create or replace function wakeboard.schedule(
  name text, job_type text, payload jsonb default '{}',
  -- arguments: {name} {type} default {default}
  cron text default null, time_zone text default 'Etc/UTC', queue text default 'default', priority integer default 3,
  limit_key text default null, concurrency_policy text default 'Allow', catch_up text default 'Latest', catch_up_limit integer default 100,
  starting_deadline_s integer default null, jitter_s integer default 0, dst_gap text default 'RunAfter', dst_overlap text default 'First',
  suspended boolean default false, suspend_after_dead integer default null, max_attempts integer default 5, timeout_s integer default 600,
  backoff text default 'exponential', backoff_base_s integer default 10, backoff_cap_s integer default 3600, every interval default null,
  at timestamptz default null, starts_at timestamptz default null, ends_at timestamptz default null,
  expect_success_within_s integer default null, alert_after_missed integer default null
  -- end
)
returns table (id bigint, answer text) language plpgsql security definer
set enable_seqscan = off set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  in_namespace constant text := case when strpos(name, '/') = 0 then 'default' else split_part(name, '/', 1) end;
  short constant text := substr(name, strpos(name, '/') + 1);
  line constant text := case when num_nonnulls(every, at) = 0 then cron else schedule_line(cron, every, at) end;
  most integer;                              -- the bound of schedules in a namespace
  is_free boolean;                           -- the name is, and there is no bound (set_max_schedules): the trigger need not look
  def job_definitions;
  is_repeat boolean;
  is_another boolean := false;               -- another transaction has changed the schedule since it was read
begin
  if name is null or job_type is null or char_length(cron) not between 1 and 100 or priority not between 1 and 5
     or max_attempts not between 1 and 1000 or backoff not in ('exponential', 'fixed')
     or greatest(timeout_s, backoff_base_s, backoff_cap_s) > 2678400 or least(timeout_s, backoff_base_s, backoff_cap_s) < 1
     or num_nulls(payload,
       -- defaults: {name}
       time_zone, queue, priority, concurrency_policy, catch_up, catch_up_limit, jitter_s, dst_gap, dst_overlap, suspended, max_attempts,
       timeout_s, backoff, backoff_base_s, backoff_cap_s
       -- end
     ) > 0 then                              -- as in enqueue.sql
    perform refuse_argument('name', name, 'namespace/name') where name is null;
    perform refuse_argument('job_type', null, 'the name of a job type') where job_type is null;
    perform refuse_argument('cron', cron, 'text of 1 to 100 characters, such as 0 8 * * MON')
      where char_length(cron) not between 1 and 100;
    perform refuse_value('priority', priority::text) where priority not between 1 and 5;
    perform refuse_argument('max_attempts', max_attempts::text, 'a whole number from 1 to 1000') where max_attempts not between 1 and 1000;
    perform refuse_value('backoff', backoff) where backoff not in ('exponential', 'fixed');
    perform refuse_argument(given.name, given.value::text, 'a number of seconds from 1 to 2678400 (31 days)')
       from (values ('timeout_s', timeout_s), ('backoff_base_s', backoff_base_s), ('backoff_cap_s', backoff_cap_s)) as given (name, value)
      where given.value not between 1 and 2678400;
    payload := coalesce(payload, '{}');
    -- defaults: {name} := coalesce({name}, {default});
    time_zone := coalesce(time_zone, 'Etc/UTC'); queue := coalesce(queue, 'default'); priority := coalesce(priority, 3);
    concurrency_policy := coalesce(concurrency_policy, 'Allow'); catch_up := coalesce(catch_up, 'Latest');
    catch_up_limit := coalesce(catch_up_limit, 100); jitter_s := coalesce(jitter_s, 0); dst_gap := coalesce(dst_gap, 'RunAfter');
    dst_overlap := coalesce(dst_overlap, 'First'); suspended := coalesce(suspended, false); max_attempts := coalesce(max_attempts, 5);
    timeout_s := coalesce(timeout_s, 600); backoff := coalesce(backoff, 'exponential'); backoff_base_s := coalesce(backoff_base_s, 10);
    backoff_cap_s := coalesce(backoff_cap_s, 3600);
    -- end
  end if;
  loop
    select max_schedules_per_namespace, max_schedules_per_namespace is null
           and not exists (select from job_definitions as known
                            where known.namespace collate "C" = in_namespace and known.name collate "C" = short)
      into most, is_free
      from installation where only_row;
    if not is_free then
      select * into def from job_definitions as known
       where known.source = 'app' and known.namespace = in_namespace and known.name = short;
      exit when found;
    end if;
    insert into job_definitions (
      namespace, name, job_type, payload, schedule, next_run_at,
      -- columns: {column}
      time_zone, queue, priority, limit_key, concurrency_policy, catch_up, catch_up_limit, starting_deadline_s, jitter_s, dst_gap,
      dst_overlap, suspended, suspend_after_dead, max_attempts, timeout_s, backoff_strategy, backoff_base_s, backoff_cap_s, starts_at,
      ends_at, expect_success_within_s, alert_after_missed
      -- end
    ) values (
      in_namespace, short, schedule.job_type, schedule.payload, line,
      case when is_free and not schedule.suspended and line is not null then clock_timestamp() end,
      -- columns: schedule.{name}{cast}
      schedule.time_zone, schedule.queue, schedule.priority, schedule.limit_key, schedule.concurrency_policy, schedule.catch_up,
      schedule.catch_up_limit, schedule.starting_deadline_s, schedule.jitter_s, schedule.dst_gap, schedule.dst_overlap, schedule.suspended,
      schedule.suspend_after_dead, schedule.max_attempts, schedule.timeout_s, schedule.backoff::backoff_strategy, schedule.backoff_base_s,
      schedule.backoff_cap_s, schedule.starts_at, schedule.ends_at, schedule.expect_success_within_s, schedule.alert_after_missed
      -- end
    )
    on conflict on constraint a_schedule_is_named_once_per_source do nothing
    returning job_definitions.id into schedule.id;
    if found then
      answer := case when ends_at <= statement_timestamp() then 'ended' else 'created' end;
      return next;
      return;
    end if;                                  -- another transaction has just created it
  end loop;
  id := def.id;
  if def.payload <> schedule.payload and jsonb_strip_nulls(def.payload) = jsonb_strip_nulls(schedule.payload) then
    def.payload := schedule.payload;         -- null equals absent
  end if;
  is_repeat := (def.removed_at is null or def.removed_at > def.updated_at)       -- it is there, or has removed itself after its last tick
     and def.schedule_error is null
     and (
       def.job_type, def.payload, def.schedule,
       -- columns: def.{column}
       def.time_zone, def.queue, def.priority, def.limit_key, def.concurrency_policy, def.catch_up, def.catch_up_limit,
       def.starting_deadline_s, def.jitter_s, def.dst_gap, def.dst_overlap, def.suspended, def.suspend_after_dead, def.max_attempts,
       def.timeout_s, def.backoff_strategy, def.backoff_base_s, def.backoff_cap_s, def.starts_at, def.ends_at, def.expect_success_within_s,
       def.alert_after_missed
       -- end
     ) is not distinct from (
       schedule.job_type, schedule.payload, line,
       -- columns: schedule.{name}{cast}
       schedule.time_zone, schedule.queue, schedule.priority, schedule.limit_key, schedule.concurrency_policy, schedule.catch_up,
       schedule.catch_up_limit, schedule.starting_deadline_s, schedule.jitter_s, schedule.dst_gap, schedule.dst_overlap, schedule.suspended,
       schedule.suspend_after_dead, schedule.max_attempts, schedule.timeout_s, schedule.backoff::backoff_strategy, schedule.backoff_base_s,
       schedule.backoff_cap_s, schedule.starts_at, schedule.ends_at, schedule.expect_success_within_s, schedule.alert_after_missed
       -- end
     );
  if is_repeat and exists (select from job_definitions as known where known.id = def.id and known.xmax::text <> '0') then
    begin                                    -- another transaction may be changing it
      perform from job_definitions as known where known.id = def.id for share;
      raise no_data_found;                   -- lets go of the lock, which keeps the scheduler out
    exception when no_data_found then null;
    end;
    is_another := (def.generation, def.removed_at) is distinct from (
      select (known.generation, known.removed_at) from job_definitions as known where known.id = def.id);
  end if;
  if not is_another then
    if is_repeat then
      answer := case when def.removed_at is not null or ends_at <= statement_timestamp()
                       or case when line like 'at %' then substr(line, 4)::timestamptz end <= def.last_tick_at then 'ended'
                     else 'unchanged' end;
      perform wait_for_standby();
      return next;
      return;
    end if;
    if most is null then
      select (known.generation, known.removed_at) is distinct from (def.generation, def.removed_at) into is_another
        from job_definitions as known where known.id = def.id for no key update;
    else
      begin
        perform check_schedule_count(in_namespace, most) where def.removed_at is not null;
        select (known.generation, known.removed_at) is distinct from (def.generation, def.removed_at) into is_another
          from job_definitions as known where known.id = def.id for no key update;
        if is_another is distinct from false then
          raise no_data_found;               -- lets go of the row: see lock_namespace
        end if;
      exception when no_data_found then null;
      end;
    end if;
  end if;
  if is_another is false then
    update job_definitions as known
       set job_type = schedule.job_type, payload = schedule.payload, schedule = line, removed_at = null,
           -- columns: {column} = schedule.{name}{cast}
           time_zone = schedule.time_zone, queue = schedule.queue, priority = schedule.priority, limit_key = schedule.limit_key,
           concurrency_policy = schedule.concurrency_policy, catch_up = schedule.catch_up, catch_up_limit = schedule.catch_up_limit,
           starting_deadline_s = schedule.starting_deadline_s, jitter_s = schedule.jitter_s, dst_gap = schedule.dst_gap,
           dst_overlap = schedule.dst_overlap, suspended = schedule.suspended, suspend_after_dead = schedule.suspend_after_dead,
           max_attempts = schedule.max_attempts, timeout_s = schedule.timeout_s, backoff_strategy = schedule.backoff::backoff_strategy,
           backoff_base_s = schedule.backoff_base_s, backoff_cap_s = schedule.backoff_cap_s, starts_at = schedule.starts_at,
           ends_at = schedule.ends_at, expect_success_within_s = schedule.expect_success_within_s,
           alert_after_missed = schedule.alert_after_missed
           -- end
     where known.id = def.id
    returning last_tick_at into def.last_tick_at;
  else                                       -- null: a plain INSERT has just replaced the row of a removed schedule
    return query select * from schedule(schedule.name, schedule.job_type, schedule.payload,
      -- arguments: schedule.{name}
      schedule.cron, schedule.time_zone, schedule.queue, schedule.priority, schedule.limit_key, schedule.concurrency_policy,
      schedule.catch_up, schedule.catch_up_limit, schedule.starting_deadline_s, schedule.jitter_s, schedule.dst_gap, schedule.dst_overlap,
      schedule.suspended, schedule.suspend_after_dead, schedule.max_attempts, schedule.timeout_s, schedule.backoff, schedule.backoff_base_s,
      schedule.backoff_cap_s, schedule.every, schedule.at, schedule.starts_at, schedule.ends_at, schedule.expect_success_within_s,
      schedule.alert_after_missed
      -- end
    );
    return;
  end if;
  answer := case when ends_at <= statement_timestamp()
                   or case when line like 'at %' then substr(line, 4)::timestamptz end <= def.last_tick_at then 'ended'
                 when def.removed_at <= def.updated_at then 'created' else 'updated' end;
  return next;
end
$$;
