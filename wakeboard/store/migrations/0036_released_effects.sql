-- What a row of an effect that was released says.

comment on column job_forever_effects.first_run_uuid is
  'the run that began it first, or after a release a random UUID: the key for a provider comes from it';
comment on column job_forever_effects.run_id is
  'the run that began it, or took it over in doubt, last; it alone may have it; 0: it was released, and no run has had it since';
