-- for: worker
-- A worker says who it is and which job types it knows. False: its pool has `max_workers` workers seen in the last 30 s
-- already, and this one should go.

create or replace function wakeboard.register(
  nonce bigint, name text, pool text, host text, version text, queues text[], capacity integer, lease_s integer,
  job_types text[], max_workers integer default null)
returns boolean language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp
as $$
begin
  if max_workers is not null then
    perform pg_advisory_xact_lock(hashtext('wakeboard register'), hashtext(register.pool));   -- two at once count one after the other
    if (select count(*) from workers as other
         where other.pool = register.pool and other.nonce <> register.nonce
           and other.last_seen > statement_timestamp() - interval '30 s') >= max_workers then
      return false;
    end if;
  end if;
  insert into workers (nonce, name, pool, host, version, queues, capacity, lease_s)
  values (register.nonce, register.name, register.pool, register.host, register.version, register.queues, register.capacity,
          register.lease_s)
  on conflict on constraint workers_pkey do update set last_seen = statement_timestamp();
  insert into worker_types (job_type, queue, pool)
  select known.job_type, served.queue, register.pool
    from unnest(register.job_types) as known (job_type) cross join unnest(register.queues) as served (queue)
   order by 1, 2
  on conflict on constraint worker_types_pkey do update set last_known_at = statement_timestamp()
   where worker_types.last_known_at < statement_timestamp() - interval '30 s';
  return true;
end
$$;
