-- The campaign's own tables: the effects, the rows that applications insert together with runs, and an audit log of every
-- change of a run's lease or status. A trigger writes the log in the transaction that makes the change. Another one writes
-- what happens to runs and effects into the WAL alone, for wal_witness.py.

create schema chaos;

create table chaos.effects (            -- no unique key: `once` must prevent a second row
  run_id       bigint not null,
  run_uuid     uuid not null,
  key          text not null,
  worker_clock timestamptz not null,
  at           timestamptz not null default clock_timestamp()
);

create table chaos.parcels (            -- an external provider that respects idempotency keys
  provider_key text primary key,
  run_id       bigint not null,
  label        text not null
);

create table chaos.orders (             -- an application's rows, inserted in the transaction that enqueues
  tag    text primary key,
  run_id bigint not null
);

create table chaos.forever_effects (     -- no unique key, as above
  key    text not null,
  run_id bigint not null
);

create table chaos.customers (           -- an application's rows, each with a schedule
  name    text primary key,
  version float8 not null
);

create table chaos.generations (         -- of schedules from code: when each was written, and how far its ticks had come at its end
  definition_id bigint not null,
  generation    bigint not null,
  every_s       integer not null,
  written_at    timestamptz not null,
  last_tick_at  timestamptz not null,    -- of the generations before
  continues     boolean not null,        -- it is due at the same moments as the generation before, which was not removed
  ended_at      timestamptz,
  was_removed   boolean,
  done_until    timestamptz,             -- the last tick at its end
  reached       timestamptz,             -- the next tick at its end, or until the scheduler has seen it, a moment before that
  was_seen      boolean,                 -- by the scheduler
  primary key (definition_id, generation)
);

create table chaos.first_ticks (definition_id bigint primary key, at timestamptz not null, every_s integer not null);

create table chaos.workers_seen (worker_id bigint primary key, name text not null);

create table chaos.transitions (
  position  bigint generated always as identity primary key,
  at        timestamptz not null default clock_timestamp(),
  run_id    bigint not null,
  what      text not null,              -- created, claimed, reaped, ended, changed, removed
  holder    bigint not null,            -- before a lease ends, or after it begins
  epoch     bigint not null,            -- after the change
  status    text not null,
  run_at    timestamptz not null,
  limit_key text,
  expired_at timestamptz,               -- of a reaped lease
  started_at timestamptz                -- of a claimed run
);
create index on chaos.transitions (run_id);
create index on chaos.transitions (at);

create table chaos.circuits (           -- each change of a circuit
  definition_id bigint not null,
  at            timestamptz not null default clock_timestamp(),
  is_open       boolean not null
);

create table chaos.limit_pauses (       -- each pause of a limit key by a handler
  key          text not null,
  at           timestamptz not null default clock_timestamp(),
  paused_until timestamptz not null
);

create table chaos.held (                -- 2n: a session holds locks for the n-th time; 2n + 1: no longer
  number  integer primary key
);

create function chaos.record_worker() returns trigger language plpgsql security definer as $$
begin
  insert into chaos.workers_seen (worker_id, name) values (new.worker_id, new.name) on conflict do nothing;
  return null;
end
$$;
create trigger record_worker after insert on wakeboard.workers for each row execute function chaos.record_worker();

create function chaos.record_definition() returns trigger language plpgsql security definer as $$
begin
  insert into chaos.first_ticks values (new.id, new.next_run_at, case when new.schedule like '*/2%' then 120 else 60 end);
  return null;
end
$$;
create trigger record_definition after insert on wakeboard.job_definitions
  for each row when (new.next_run_at is not null and new.source <> 'app') execute function chaos.record_definition();

create function chaos.record_generation() returns trigger language plpgsql security definer as $$
declare
  -- The moment that the product takes: a statement may have waited for a lock before.
  present constant timestamptz := case when tg_op = 'INSERT' then new.next_run_at
                                       when new.removed_at is null then new.updated_at end;
begin
  if tg_op = 'UPDATE' then
    update chaos.generations
       set ended_at = coalesce(present, clock_timestamp()), was_removed = new.removed_at is not null, done_until = old.last_tick_at,
           reached = old.next_run_at, was_seen = old.cron_fields is not null
     where definition_id = old.id and generation = old.generation and ended_at is null;
  end if;
  if new.removed_at is null then
    insert into chaos.generations (definition_id, generation, every_s, written_at, last_tick_at, continues)
    values (new.id, new.generation, extract(epoch from substr(new.schedule, 7)::interval), coalesce(present, clock_timestamp()), new.last_tick_at,
            tg_op = 'UPDATE' and old.removed_at is null and old.schedule = new.schedule);
  end if;
  return null;
end
$$;
create trigger record_created after insert on wakeboard.job_definitions
  for each row when (new.source = 'app') execute function chaos.record_generation();
create trigger record_generation after update on wakeboard.job_definitions
  for each row when (new.source = 'app' and (old.generation <> new.generation or new.removed_at is not null and old.removed_at is null))
  execute function chaos.record_generation();

create function chaos.record_circuit() returns trigger language plpgsql security definer as $$
begin
  insert into chaos.circuits (definition_id, is_open) values (new.id, new.circuit_opened_at is not null);
  return null;
end
$$;
create trigger record_circuit after update on wakeboard.job_definitions
  for each row when (old.circuit_opened_at is distinct from new.circuit_opened_at) execute function chaos.record_circuit();

create function chaos.record_limit_pause() returns trigger language plpgsql security definer as $$
begin
  insert into chaos.limit_pauses (key, paused_until) values (new.key, new.paused_until);
  return null;
end
$$;
create trigger record_limit_pause after update on wakeboard.job_limits
  for each row when (old.paused_until < new.paused_until) execute function chaos.record_limit_pause();

create function chaos.record_run() returns trigger language plpgsql security definer as $$
declare
  run wakeboard.job_runs := case tg_op when 'DELETE' then old else new end;
  change text;
begin
  change := case
    when tg_op = 'INSERT' then 'created'
    when tg_op = 'DELETE' then 'removed'
    when old.locked_by = 0 and new.locked_by <> 0 then 'claimed'
    when old.locked_by <> 0 and new.locked_by <> 0 then 'taken over'             -- a violation: a lease must end first
    when old.locked_by <> 0 and new.lease_epoch > old.lease_epoch then 'reaped'
    when old.locked_by <> 0 then 'ended'                                             -- failed or released
    else 'changed' end;
  insert into chaos.transitions (run_id, what, holder, epoch, status, run_at, limit_key, expired_at, started_at)
  values (run.id, change, case when tg_op = 'UPDATE' and old.locked_by <> 0 then old.locked_by else run.locked_by end,
          run.lease_epoch, run.status, run.run_at, run.limit_key, case change when 'reaped' then old.locked_until end,
          case change when 'claimed' then run.started_at end);
  return null;
end
$$;
create trigger record_new_run after insert or delete on wakeboard.job_runs for each row execute function chaos.record_run();
create trigger record_changed_run after update on wakeboard.job_runs for each row
  when (old.locked_by is distinct from new.locked_by or old.status is distinct from new.status
        or old.lease_epoch is distinct from new.lease_epoch)
  execute function chaos.record_run();

create function chaos.note_in_wal() returns trigger language plpgsql as $$
declare
  changed jsonb := to_jsonb(case tg_op when 'DELETE' then old else new end);
begin
  perform pg_logical_emit_message(true, 'change', jsonb_build_array(
    tg_argv[0], tg_op, coalesce(changed ->> 'id', (changed ->> 'run_uuid') || ' ' || (changed ->> 'key')),
    changed ->> 'status', changed ->> 'locked_by', changed ->> 'lease_epoch')::text);
  return null;
end
$$;
create trigger note_new_run after insert or delete on wakeboard.job_runs
  for each row execute function chaos.note_in_wal('job_runs');
create trigger note_changed_run after update on wakeboard.job_runs for each row
  when (old.locked_by is distinct from new.locked_by or old.status is distinct from new.status
        or old.lease_epoch is distinct from new.lease_epoch)
  execute function chaos.note_in_wal('job_runs');
create trigger note_ended_run after insert or update or delete on wakeboard.job_run_history
  for each row execute function chaos.note_in_wal('job_run_history');
create trigger note_key after insert or delete on wakeboard.job_effects
  for each row execute function chaos.note_in_wal('job_effects');
create trigger note_effect after insert or update or delete on chaos.effects
  for each row execute function chaos.note_in_wal('effects');

grant usage on schema chaos to chaos_app, chaos_worker;
grant select on chaos.held to chaos_app;
grant select, insert on chaos.effects, chaos.forever_effects, chaos.parcels, chaos.orders to chaos_app;
grant select, insert, update, delete on chaos.customers to chaos_app;
