-- for: worker
-- Registers a worker process and the job types that it knows. Workers call it at start and every few minutes. False: the pool has
-- `max_workers` workers already (with a heartbeat in the last 30 s), and the caller should exit. `max_workers` null: unlimited. A worker
-- knows up to 1,000 job types, and 10,000 pairs of a job type and a queue. `pod_uid`: of its pod, if it runs in one. `offers`: by built-in
-- job type an array of the hosts, commands or namespaces that its runs may name, such as {"http": ["api.example.com"]}.
-- Example:
--   select wakeboard.register_worker(7, 'worker-1', 'default', 'host', '0.1.0', '{default}', 100, 60, '{send_mail}');

create or replace function wakeboard.register_worker(
  worker_id wakeboard.worker_number, name wakeboard.label, pool wakeboard.label, host wakeboard.label,
  version wakeboard.label, queues wakeboard.queue_array, capacity wakeboard.worker_capacity, lease_s wakeboard.lease_duration_s,
  job_types wakeboard.job_type_array, max_workers integer default null, pod_uid wakeboard.label default '',
  offers jsonb default null)
returns boolean language plpgsql security definer
set lock_timeout = '1s'
as $$
begin
  if cardinality(job_types) > 1000 or cardinality(job_types) * cardinality(queues) > 10000 then
    raise exception using errcode = '22023', message = 'a worker knows up to 1000 job types, and 10000 pairs of a job type and a queue';
  end if;
  perform coalesce(job_type::job_type_name::text, refuse_argument('a job type', null, 'the name of a job type')::text)
     from unnest(job_types) as job_type;
  perform coalesce(queue::queue_name::text, refuse_argument('a queue', null, 'the name of a queue')::text) from unnest(queues) as queue;
  if jsonb_typeof(offers) <> 'object' or pg_column_size(offers) > 65536 or offers @? 'strict $.* ? (@.type() != "array")'
     or offers @? 'strict $.*[*] ? (@.type() != "string")' then
    perform refuse_argument('offers', offers::text, 'an object of arrays of names, of up to 64 KiB');
  end if;
  perform note_server();                 -- last_seen is a sign of the former server until then (server_change)
  if max_workers is not null then
    begin
      lock table worker_types in share row exclusive mode;   -- so that concurrent registrations are counted one after the other
    exception when lock_not_available then                   -- one worker too many is better than none
      null;
    end;
    if (select count(*) from workers as other
         where other.pool = register_worker.pool and other.worker_id <> register_worker.worker_id
           and other.last_seen > statement_timestamp() - interval '30 s') >= max_workers then
      return false;
    end if;
  end if;
  insert into workers (worker_id, name, pool, host, version, queues, capacity, lease_s, pod_uid)
  select register_worker.worker_id, register_worker.name, register_worker.pool, register_worker.host, register_worker.version,
         register_worker.queues, register_worker.capacity, register_worker.lease_s, nullif(register_worker.pod_uid, '')
   -- `on conflict` waits for a locked row
   where not exists (select from workers as known where known.worker_id = register_worker.worker_id)
  on conflict do nothing;
  if not found then
    update workers set last_seen = statement_timestamp(), heartbeats_since = statement_timestamp()
     where workers.worker_id = (
       select known.worker_id from workers as known
        where known.worker_id = register_worker.worker_id
          -- registering again is no heartbeat
          and known.last_seen < statement_timestamp() - make_interval(secs => register_worker.lease_s)
          for no key update skip locked);
  end if;
  begin
    update worker_types as known set last_known_at = statement_timestamp(), offers = register_worker.offers -> known.job_type
     where ctid = any (array(
       select ctid from worker_types as known
        where known.job_type = any (register_worker.job_types) and known.queue = any (register_worker.queues)
          and known.pool = register_worker.pool
          and (known.last_known_at < statement_timestamp() - interval '30 s'
               or known.offers is distinct from register_worker.offers -> known.job_type)
          for no key update skip locked));
    insert into worker_types (job_type, queue, pool, offers)
    select new.job_type, served.queue, register_worker.pool, register_worker.offers -> new.job_type
      from unnest(register_worker.job_types) as new (job_type) cross join unnest(register_worker.queues) as served (queue)
     where not exists (select from worker_types as known
                        where known.job_type = new.job_type and known.queue = served.queue and known.pool = register_worker.pool)
     order by 1, 2
    on conflict do nothing;
  exception when lock_not_available then                     -- another worker is inserting the same types
    null;
  end;
  return true;
end
$$;
