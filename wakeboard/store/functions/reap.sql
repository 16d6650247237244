-- for: worker, operator
-- Takes back lapsed leases, in slices of `slice` runs behind `after_id`; null as the answer's next_id: done for now.
-- A walk begins (after_id = 0) once a minute, and while a worker is silent for longer than a lease: every second at most, however
-- many call this. One that was broken off, or had to pass by a lapsed lease (an effect's open transaction holds its row, or the
-- next heartbeat tells what became of it), is made again after four seconds. It waits for no row that others have locked. While
-- the marks of the walks themselves are locked, one call in ten walks without them.
-- A lapsed run gets its attempt back and one crash more; the third crash makes it dead (WorkerCrashed). A lease that lapsed
-- because the run's own timeout bounded it, while its worker lived on, is a failed attempt (Timeout). A run that was asked to
-- cancel is cancelled.

create or replace function wakeboard.reap(after_id bigint default 0, slice integer default 5000, always boolean default false)
returns table (next_id bigint, crashed integer, timed_out integer, dead integer, cancelled integer) language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off set jit = off set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  due boolean;
  last_id bigint;
  reaped record;
begin
  if reap.after_id = 0 then
    perform from installation for no key update skip locked;
    if found then
      update installation set walked_at = statement_timestamp()
       where always
          or walked_at < statement_timestamp() - interval '4 seconds'
             and (reaped_at < statement_timestamp() - interval '1 minute' or reaped_at < walked_at)
          or walked_at < statement_timestamp() - interval '1 second'
             and exists (select from workers where last_seen < statement_timestamp() - make_interval(secs => lease_s));
      due := found;
    else                                 -- another transaction has locked the marks: it walks now, or was left open
      due := always or random() < 0.1 and exists (
        select from installation where walked_at < statement_timestamp() - interval '1 minute');
    end if;
    if not due then
      return query select null::bigint, 0, 0, 0, 0;
      return;
    end if;
  end if;

  select max(id) into last_id
    from (select id from job_runs where id > reap.after_id order by id limit slice) as walked;
  if last_id is null then
    update installation set reaped_at = walked_at
     where passed_by_at < walked_at and only_row in (select only_row from installation for no key update skip locked);
    -- Their leases had lapsed when the walk began: a worker claims for three quarters of a lease after a beat.
    delete from workers where nonce = any (array(
      select nonce from workers
       where last_seen < (select walked_at from installation) - make_interval(secs => lease_s * 2)
         for update skip locked));
    return query select null::bigint, 0, 0, 0, 0;
    return;
  end if;

  with locked as (
    select id, attempts, max_attempts, crash_count, lease_epoch, locked_by, started_at, definition_id,
           case when cancel_requested_at is not null then 'cancelled'
                when locked_until >= started_at + make_interval(secs => timeout_s)
                     and exists (select from workers
                                  where nonce = locked_by
                                    and last_seen > job_runs.started_at + make_interval(secs => timeout_s))
                  then case when attempts >= max_attempts then 'timed out dead' else 'timed out' end
                when crash_count >= 2 then 'crashed dead'
                else 'crashed' end as verdict
      from job_runs
     where id > reap.after_id and id <= last_id and locked_by <> 0 and locked_until < statement_timestamp()
       and not (locked_until >= started_at + make_interval(secs => timeout_s)      -- a timeout or a crash? the next heartbeat tells
                and exists (select from workers
                             where nonce = locked_by and last_seen > statement_timestamp() - make_interval(secs => lease_s / 2.0)
                               and last_seen <= job_runs.started_at + make_interval(secs => timeout_s)))
     order by id
       for update skip locked
  ), recorded as (
    insert into job_attempts (run_id, lease_epoch, attempt, outcome, error_type, error, locked_by, worker, started_at)
    select id, lease_epoch, attempts, case when verdict like 'timed out%' then 'timed_out' else 'crashed' end,
           case when verdict like 'timed out%' then 'Timeout' else 'WorkerCrashed' end,
           case when verdict like 'timed out%' then 'it ran longer than its timeout' else 'its worker died or lost its lease' end,
           locked_by, (select name from workers where nonce = locked_by), started_at
      from locked
    on conflict do nothing
  ), noted as (
    insert into definition_changes (definition_id) select distinct definition_id from locked where definition_id is not null
  ), settled as (
    update job_runs as run
       set locked_by = 0, locked_until = 'epoch', holds_slot = false, lease_epoch = run.lease_epoch + 1,
           status = (case when verdict like '%dead' then 'dead' when verdict = 'timed out' then 'failed' else 'queued' end)::run_status,
           attempts = run.attempts - (verdict like 'crashed%')::integer,
           crash_count = run.crash_count + (verdict like 'crashed%')::integer,
           run_at = case verdict when 'timed out'
                    then statement_timestamp() + backoff(run.backoff_strategy, run.backoff_base_s, run.backoff_cap_s, run.attempts)
                    else run_at end,
           failed_at = case when verdict = 'crashed' then failed_at else statement_timestamp() end,
           dead_at = case when verdict like '%dead' then statement_timestamp() end,
           error_type = case when verdict like 'timed out%' then 'Timeout' else 'WorkerCrashed' end,
           last_error = case when verdict like 'timed out%' then format('it ran longer than its timeout of %s s', timeout_s)
                             else format('its worker died or lost its lease (crash %s of 3)', run.crash_count + 1) end
      from locked
     where run.id = locked.id and verdict <> 'cancelled'
  )
  select count(*) filter (where verdict like 'crashed%') as crashed, count(*) filter (where verdict like 'timed out%') as timed_out,
         count(*) filter (where verdict like '%dead') as dead, array_agg(id) filter (where verdict = 'cancelled') as cancelled
    into reaped from locked;

  perform finish_runs(reaped.cancelled, 'cancelled', 'Cancelled') where reaped.cancelled is not null;
  if exists (select from job_runs
              where id > reap.after_id and id <= last_id and locked_by <> 0 and locked_until < statement_timestamp()) then
    update installation set passed_by_at = statement_timestamp()
     where only_row in (select only_row from installation for no key update skip locked);
  end if;
  if reaped.crashed > 0 then
    perform pg_notify('wakeboard', '');
  end if;
  return query select last_id, reaped.crashed::integer, reaped.timed_out::integer, reaped.dead::integer,
                      coalesce(cardinality(reaped.cancelled), 0);
end
$$;
