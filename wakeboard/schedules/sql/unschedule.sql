-- for: scheduler
-- Removes a schedule that `schedule` created, in the caller's transaction. Queued and failed runs of it are cancelled, running ones
-- finish, dead ones and the history remain. The oldest due tick is recorded as skipped, if SQL can compute it (due_tick), with all due
-- ticks after it if it is one of an interval. False: there is none of this name. Raises 22023 for one that a cluster or a folder declares
-- and for a pattern, and 55P03 if another transaction keeps it or one of its waiting runs locked for 2 seconds. In REPEATABLE READ and
-- SERIALIZABLE, a schedule that another transaction has changed since the snapshot fails the statement with 40001, and a run that has come
-- or failed since then counts as running.
-- Example:
--   select wakeboard.unschedule('customers/42-report');

create or replace function wakeboard.unschedule(name text)
returns boolean language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  def job_definitions;
  owner text;
  waiting bigint[];
  in_namespace constant text := case when strpos(name, '/') = 0 then 'default' else split_part(name, '/', 1) end;
  short constant text := substr(name, strpos(name, '/') + 1);
begin
  loop
    select * into def from job_definitions as known
     where known.source = 'app' and known.namespace = in_namespace and known.name = short
       for update;
    exit when found or not exists (select from job_definitions as known
                                    where known.source = 'app' and known.namespace = in_namespace and known.name = short);
  end loop;                                  -- a plain INSERT has just replaced the row
  if def.id is null then
    if name is null or short !~ '^[a-z0-9.-]{1,63}$' or in_namespace !~ '^[a-z0-9-]{1,63}$' then
      perform refuse_argument('name', name, 'the name of one schedule, such as customers/42-report; unschedule_all takes a pattern');
    end if;
  end if;
  if def.id is null or def.removed_at is not null then
    select known.source into owner from job_definitions as known
     where known.namespace collate "C" = in_namespace and known.name collate "C" = short
       and known.source <> 'app' and known.removed_at is null limit 1;
    if found then
      raise exception using errcode = '22023', message = format(
        'the schedule %s/%s belongs to %s; remove it there', in_namespace, short, owner);
    end if;
  end if;
  if def.removed_at is not null then         -- by itself, after its last tick, whose run may wait
    waiting := array(select run.id from job_runs as run where run.definition_id = def.id and run.status in ('queued', 'failed'));
  end if;
  if def.id is null or waiting = '{}' then
    perform wait_for_standby();
    return false;
  end if;
  if waiting is not null then
    perform cancel_last_runs(array[def.id]);
    return true;
  end if;
  perform remove_schedules(array[def.id]);
  return true;
exception when lock_not_available then
  perform refuse_locked(concat(in_namespace, '/', short));
end
$$;
