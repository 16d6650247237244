-- Effects that happen once for ever: for each key one row, whatever run, schedule or job type has the effect.

create table job_forever_effects (
  key            text constraint an_effect_happens_once_for_ever primary key,
  first_run_uuid uuid not null,
  run_id         bigint not null,
  lease_epoch    bigint not null,
  begun_epochs   bigint[] not null default '{}',
  started_at     timestamptz not null default statement_timestamp(),
  finished_at    timestamptz,                          -- null: started, and not reported as finished
  constraint effect_key_is_printable
    check (key ~ '^[^\x01-\x1f\x7f-\x9f]+$' and char_length(key) <= 256 or refuse_value('effect key', key))
);
create index job_forever_effects_runs on job_forever_effects (run_id);
comment on table job_forever_effects is 'Effects: each happens once for its key, whatever run has it.';
comment on column job_forever_effects.first_run_uuid is 'the run that began it first: the key for a provider comes from it';
comment on column job_forever_effects.run_id is 'the run that began it, or took it over in doubt, last; it alone may have it';
comment on column job_forever_effects.lease_epoch is 'of the attempt of run_id that began it or took it over';
comment on column job_forever_effects.begun_epochs is 'lease epochs of the attempts before that, the last 100';
