-- internal (trigger of job_definitions)
-- Before an INSERT or UPDATE of the options of a schedule: checks them. A null of a schedule of an application means the default, as in
-- `schedule`. Checks cost less here than as constraints, whose expressions Postgres reads and plans for each statement. One that expects
-- successes of its ticks is looked at next by update_expectations when this says; ticks until now do not count if the expectation is new.
-- The rest is for schedules of applications, written by `schedule` or by a plain statement. It is left to the scheduler to compile their
-- expressions. Until then its next_run_at is a moment, not a tick: its ticks are those after that moment, so that none is lost or late. A
-- single moment (`at`) may be before that: it is due unless it is not after its newest tick.
-- `schedule` says that moment itself after it has found that the name is free and that no administrator has set a bound. An UPDATE that
-- changes nothing is no edit (edit_schedule). An INSERT of a removed schedule edits it, as `schedule` does: the new row takes the id, and
-- with it the pause, and the ticks that were handled. The trigger acts with the rights of the owner.

create or replace function wakeboard.schedule_written()
returns trigger language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp set enable_seqscan = off
as $$
declare
  present constant timestamptz := clock_timestamp();       -- of one long statement, each row has its moment
  problem text;
  former job_definitions;              -- a removed schedule of this name
  is_known boolean;                    -- another schedule has or had this name
  is_edit boolean := true;
begin
  if new.next_run_at is not null and tg_op = 'INSERT' then
    null;                              -- `schedule` has filled them in
  elsif new.source = 'app' and num_nulls(new.namespace, new.name, new.job_type, new.payload,
       -- defaults: new.{column}
       new.time_zone, new.queue, new.priority, new.concurrency_policy, new.catch_up, new.catch_up_limit, new.jitter_s, new.dst_gap,
       new.dst_overlap, new.suspended, new.max_attempts, new.timeout_s, new.backoff_strategy, new.backoff_base_s, new.backoff_cap_s
       -- end
     ) > 0 then                        -- as in `schedule`
    perform refuse_argument('job_type', null, 'the name of a job type') where new.job_type is null;
    new.namespace := coalesce(new.namespace, 'default');
    new.name := coalesce(new.name, case tg_op when 'UPDATE' then '' end);      -- an INSERT gives it one
    new.payload := coalesce(new.payload, '{}');
    -- defaults: new.{column} := coalesce(new.{column}, {default}{cast});
    new.time_zone := coalesce(new.time_zone, 'Etc/UTC'); new.queue := coalesce(new.queue, 'default');
    new.priority := coalesce(new.priority, 3); new.concurrency_policy := coalesce(new.concurrency_policy, 'Allow');
    new.catch_up := coalesce(new.catch_up, 'Latest'); new.catch_up_limit := coalesce(new.catch_up_limit, 100);
    new.jitter_s := coalesce(new.jitter_s, 0); new.dst_gap := coalesce(new.dst_gap, 'RunAfter');
    new.dst_overlap := coalesce(new.dst_overlap, 'First'); new.suspended := coalesce(new.suspended, false);
    new.max_attempts := coalesce(new.max_attempts, 5); new.timeout_s := coalesce(new.timeout_s, 600);
    new.backoff_strategy := coalesce(new.backoff_strategy, 'exponential'::backoff_strategy);
    new.backoff_base_s := coalesce(new.backoff_base_s, 10); new.backoff_cap_s := coalesce(new.backoff_cap_s, 3600);
    -- end
  end if;
  if tg_op = 'UPDATE' then             -- nested, because Postgres prepares the whole of a condition
    is_edit := old.removed_at is distinct from new.removed_at and old.removed_at is not null
      or old.source = 'app' and old.schedule_error is not null             -- see edit_schedule
         and (old.circuit_opened_at, old.circuit_probe_at, old.circuit_probe_id, old.circuit_probes)
             is not distinct from (new.circuit_opened_at, new.circuit_probe_at, new.circuit_probe_id, new.circuit_probes)
      or (
        old.namespace, old.name, old.job_type, old.payload, old.schedule,
        -- columns: old.{column}
        old.time_zone, old.queue, old.priority, old.limit_key, old.concurrency_policy, old.catch_up, old.catch_up_limit,
        old.starting_deadline_s, old.jitter_s, old.dst_gap, old.dst_overlap, old.suspended, old.suspend_after_dead, old.max_attempts,
        old.timeout_s, old.backoff_strategy, old.backoff_base_s, old.backoff_cap_s, old.starts_at, old.ends_at, old.expect_success_within_s,
        old.alert_after_missed
        -- end
      ) is distinct from (
        new.namespace, new.name, new.job_type, new.payload, new.schedule,
        -- columns: new.{column}
        new.time_zone, new.queue, new.priority, new.limit_key, new.concurrency_policy, new.catch_up, new.catch_up_limit,
        new.starting_deadline_s, new.jitter_s, new.dst_gap, new.dst_overlap, new.suspended, new.suspend_after_dead, new.max_attempts,
        new.timeout_s, new.backoff_strategy, new.backoff_base_s, new.backoff_cap_s, new.starts_at, new.ends_at, new.expect_success_within_s,
        new.alert_after_missed
        -- end
      );
    new.catch_up_limit := case when is_edit and new.catch_up <> 'All' and new.catch_up_limit = old.catch_up_limit then 100
                               else new.catch_up_limit end;
  elsif new.name is null and new.source = 'app' then
    loop
      new.name := 'schedule-' || new.id;
      exit when not exists (select from job_definitions where namespace collate "C" = new.namespace and name collate "C" = new.name);
      new.id := nextval(pg_get_serial_sequence('wakeboard.job_definitions', 'id'));       -- a user has chosen that name
    end loop;
  end if;
  -- 1. What the plainest schedules of applications do not have: labels, a circuit that is open, an expectation.
  if new.source <> 'app' or num_nonnulls(new.circuit_opened_at, new.circuit_probe_at, new.circuit_probe_id, new.circuit_probes,
                                         new.expect_success_within_s, new.success_due_at, new.success_missed_at) > 0 then
    if char_length(new.origin) > 300 or jsonb_typeof(new.labels) <> 'object' or pg_column_size(new.labels) > 8192 then
      raise exception using errcode = '22023', message = 'origin has at most 300 characters, and labels are an object of at most 8 KiB';
    end if;
    if new.source <> 'app' and tg_op = 'UPDATE' then
      new := keep_due_ticks(old, new);
    end if;
    if new.source = 'app' and new.suspend_after_dead is null then
      new.circuit_opened_at := null; new.circuit_probe_at := null; new.circuit_probe_id := null; new.circuit_probes := null;
    elsif (case when new.circuit_opened_at is null then num_nonnulls(new.circuit_probe_at, new.circuit_probe_id, new.circuit_probes) > 0
                else num_nonnulls(new.suspend_after_dead, new.circuit_probe_at, new.circuit_probes) < 3 end) then
      raise exception using errcode = '23514', constraint = 'only_an_open_circuit_has_probes', message = 'only an open circuit has probes';
    end if;
    if is_edit and (new.expect_success_within_s is null or tg_op = 'INSERT' or old.expect_success_within_s is null
                    or old.removed_at is not null) then
      new.success_expected_from := case when new.expect_success_within_s is not null then present end;
      new.success_missed_at := null;
    end if;
    if is_edit then
      new.success_due_at := case when new.expect_success_within_s is not null then present + case tg_op when 'INSERT'
        then greatest(new.next_run_at - present, '0') + make_interval(secs => new.expect_success_within_s) else '0' end end;
    end if;
  end if;
  if not is_edit then                  -- a circuit that opens, or closes, needs no valid schedule
    return new;
  end if;
  -- 2. Its options.
  problem := schedule_problem(new);    -- PL/pgSQL evaluates it without the executor, as it does each expression that reads no table
  if problem is not null then
    raise exception using errcode = '22023', message = problem;
  end if;
  if new.source <> 'app' then
    if (new.schedule is null) <> (new.cron_fields is null) then
      raise exception using errcode = '23514', constraint = 'a_schedule_has_compiled_fields', message = 'a schedule has compiled fields';
    end if;
    return new;
  end if;
  if new.schedule like 'at %' then
    begin
      perform substr(new.schedule, 4)::timestamptz;
    exception when datetime_field_overflow or invalid_datetime_format then
      perform refuse_argument('schedule', new.schedule, 'a time that exists, such as at 2026-12-01T08:00:00Z');
    end;
  end if;
  if tg_op = 'INSERT' and new.next_run_at is not null then
    return new;                        -- `schedule` has looked at its name
  end if;
  if old.namespace = new.namespace and old.name = new.name and (old.removed_at is null or new.removed_at is not null) then
    return edit_schedule(old, new, present);
  end if;
  -- 3. Its name, and how many there are.
  is_known := check_schedule_name(new.namespace, new.name, old.namespace is distinct from new.namespace or old.removed_at is not null);
  if tg_op = 'UPDATE' then
    return edit_schedule(old, new, present);
  elsif is_known then                      -- by a plain INSERT
    select * into former from job_definitions
     where source = 'app' and namespace = new.namespace and name = new.name and removed_at is not null for update;
    if found then
      new.id := former.id; new.created_at := former.created_at; new.created_by := former.created_by; new.generation := former.generation;
      new.last_tick_at := former.last_tick_at; new.has_dependents := former.has_dependents;
      new.cron_fields := former.cron_fields; new.next_run_at := former.next_run_at; new.former_timings := former.former_timings;
      new := edit_schedule(former, new, present);
      update job_definitions set removed_at = '-infinity' where id = former.id;     -- schedule_guarded lets go of it
      delete from job_definitions where id = former.id;
      return new;
    end if;
  end if;
  new.next_run_at := case when not new.suspended and new.schedule is not null then present end;
  return new;
end
$$;
create or replace trigger job_definitions_written before insert or update of
    namespace, name, job_type, payload, schedule, origin, labels, circuit_opened_at, circuit_probe_at, circuit_probe_id, circuit_probes,
    -- columns: {column}
    time_zone, queue, priority, limit_key, concurrency_policy, catch_up, catch_up_limit, starting_deadline_s, jitter_s, dst_gap,
    dst_overlap, suspended, suspend_after_dead, max_attempts, timeout_s, backoff_strategy, backoff_base_s, backoff_cap_s, starts_at,
    ends_at, expect_success_within_s, alert_after_missed
    -- end
  on wakeboard.job_definitions
  for each row execute function wakeboard.schedule_written();
