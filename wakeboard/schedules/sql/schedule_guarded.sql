-- internal (trigger of job_definitions)
-- Before a plain UPDATE or DELETE of a schedule: refuses it for one that a cluster or a folder declares, or has removed, unless the owner
-- acts, as the SQL functions do. A DELETE of a schedule of an application is an `unschedule`: its row stays until the retention of the
-- history has passed, also for the owner, so that Postgres counts 0 deleted rows. An UPDATE of a removed one that does not bring it back,
-- as `schedule` does, changes 0 rows: a statement for many schedules starts none that was removed. It runs with the rights and the
-- search_path of the statement, so each name has its schema.

create or replace function wakeboard.schedule_guarded()
returns trigger language plpgsql
as $$
declare
  is_owner boolean;
begin
  if old.source operator(pg_catalog.=) 'app' and tg_op operator(pg_catalog.=) 'UPDATE' then
    return case when old.removed_at is null or new.removed_at is null then new end;
  end if;
  is_owner := pg_catalog.pg_has_role(
    (select relowner from pg_catalog.pg_class where pg_class.oid operator(pg_catalog.=) tg_relid), 'usage');
  if old.source operator(pg_catalog.=) 'app' then
    if is_owner and old.removed_at is not null then
      if old.removed_at operator(pg_catalog.<) (
           select pg_catalog.statement_timestamp() operator(pg_catalog.-) wakeboard.longer_retention(min_history_retention, null)
             from wakeboard.installation) then
        return old;                    -- delete_expired, or a plain INSERT of the same schedule (schedule_written)
      end if;
    end if;
    if old.removed_at is null then
      perform wakeboard.unschedule(pg_catalog.concat(old.namespace, '/', old.name));
      return null;
    end if;
    begin
      perform wakeboard.unschedule(pg_catalog.concat(old.namespace, '/', old.name));       -- it may have removed itself, and its run waits
    exception when invalid_parameter_value then
      null;                            -- a cluster or a folder declares its name now
    end;
    return null;
  end if;
  if not is_owner then
    raise exception using errcode = '42501', message = pg_catalog.format(
      'the schedule %s/%s belongs to %s; change it there', old.namespace, old.name, old.source);
  end if;
  return case tg_op when 'DELETE' then old else new end;
end
$$;
create or replace trigger job_definitions_guarded before delete or update of
    job_type, payload, schedule,
    -- columns: {column}
    time_zone, queue, priority, limit_key, concurrency_policy, catch_up, catch_up_limit, starting_deadline_s, jitter_s, dst_gap,
    dst_overlap, suspended, suspend_after_dead, max_attempts, timeout_s, backoff_strategy, backoff_base_s, backoff_cap_s, starts_at,
    ends_at, expect_success_within_s, alert_after_missed
    -- end
  on wakeboard.job_definitions
  for each row execute function wakeboard.schedule_guarded();
