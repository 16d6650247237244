-- for: worker, operator
-- Enqueues a run of the job type wakeboard.alert for each of the `heartbeats` (objects with name and every_s, seconds) that was not
-- enqueued within every_s, while no alert is open. Its worker calls the url of the heartbeat. A heartbeat has one run at most: a former run
-- that is dead, or that waits in another queue, moves to history first; no run follows one that waits in `queue`, that a worker executes,
-- or that another transaction has locked. Returns how many it enqueued. Never waits for the heartbeats of another process.
-- Example:
--   select wakeboard.enqueue_heartbeats('[{"name": "watchdog", "every_s": 300}]');

create or replace function wakeboard.enqueue_heartbeats(heartbeats jsonb, queue text default 'default')
returns integer language plpgsql security definer
set lock_timeout = '2s'
as $$
declare
  present constant timestamptz := statement_timestamp();
  due record;
  former record;
  enqueued integer := 0;
begin
  perform require_read_committed('enqueue_heartbeats');
  if jsonb_typeof(heartbeats) = 'array' is not true or exists (
       select from jsonb_array_elements(heartbeats) as wanted
        where (jsonb_typeof(wanted -> 'name') = 'string' and jsonb_typeof(wanted -> 'every_s') = 'number'
               and (wanted ->> 'every_s')::numeric between 1 and 2678400) is not true) then
    raise exception using errcode = '22023', message =
      'heartbeats must be an array of objects with name and every_s (1 to 2678400)';
  end if;
  if enqueue_heartbeats.queue is null then
    raise exception using errcode = '22023', message = 'queue must not be null';
  end if;
  if exists (select from alerts where resolved_at is null) then
    return 0;
  end if;
  begin
    perform set_config('lock_timeout', '50ms', true);
    insert into alert_heartbeats (name)
    select distinct wanted.name from jsonb_to_recordset(heartbeats) as wanted (name text)
     where not exists (select from alert_heartbeats as known where known.name = wanted.name)
     order by wanted.name
    on conflict do nothing;
  exception when lock_not_available then     -- as in claim_alert_rules
    null;
  end;
  perform set_config('lock_timeout', '2s', true);
  for due in
    select known.name, known.run_id
      from alert_heartbeats as known
      join (select name, min(every_s) as every_s from jsonb_to_recordset(heartbeats) as beat (name text, every_s double precision)
             group by name) as wanted on wanted.name = known.name
     where known.enqueued_at not between present - make_interval(secs => wanted.every_s) and present + interval '1 minute'
     order by known.name
       for no key update of known skip locked
  loop
    begin
      for former in
        select run.id, case when run.dead_at is null then 'cancelled' else 'dead' end::run_status as status
          from job_runs as run
         where run.id = due.run_id and (run.dead_at is not null or run.queue <> enqueue_heartbeats.queue and run.locked_by = 0)
           for update skip locked
      loop
        perform finish_runs(array[former.id], former.status, 'the next call of the heartbeat follows');
      end loop;
    exception when lock_not_available then
      exit;                                  -- the others would wait as long, and the caller may hold a lock
    end;
    continue when exists (select from job_runs where id = due.run_id);
    with made as (
      insert into job_runs as run (job_type, payload, queue, priority, max_attempts, timeout_s, backoff_base_s)
      values ('wakeboard.alert', jsonb_build_object('receiver', due.name, 'notification', 'heartbeat'),
              coalesce(enqueue_heartbeats.queue, 'default'), 5, 3, 60, 5)
      returning run.id
    )
    update alert_heartbeats as known set enqueued_at = present, run_id = made.id from made where known.name = due.name;
    enqueued := enqueued + 1;
  end loop;
  return enqueued;
end
$$;
