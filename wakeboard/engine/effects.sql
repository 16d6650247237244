-- The effects table in an application's own database. `run.once` works there as in the store, without checking the lease.
-- One effect per run and key; a worker that lost its lease and comes second gets false. With the nil UUID as `run_uuid`, one effect per
-- key for ever: `delete from wakeboard.job_effects where run_uuid = '00000000-0000-0000-0000-000000000000' and key = …` releases it.

create schema if not exists wakeboard;

create table if not exists wakeboard.job_effects (
  run_uuid    uuid not null,
  key         text not null,
  run_id      bigint not null,
  lease_epoch bigint not null,
  finished_at     timestamptz not null default statement_timestamp(),
  constraint an_effect_happens_once_per_run primary key (run_uuid, key),
  constraint effect_key_has_1_to_256_characters check (char_length(key) between 1 and 256)
);

create or replace function wakeboard.once(worker bigint, run_id bigint, run_uuid uuid, epoch bigint, key text)
returns boolean language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp
as $$
begin
  insert into job_effects (run_uuid, key, run_id, lease_epoch) values (once.run_uuid, once.key, once.run_id, once.epoch)
  on conflict on constraint an_effect_happens_once_per_run do nothing;
  return found;
end
$$;

revoke all on function wakeboard.once(bigint, bigint, uuid, bigint, text) from public;
