-- The bounds of 0009, in tests that cost less.

-- A lower-case identifier, as most job types are, is its own quoted form.
alter domain job_type_name drop constraint job_type_is_a_name;
alter domain job_type_name add constraint job_type_is_a_name check (
  octet_length(value) <= 128
  and (ascii(value) > ascii('_') and quote_ident(value) = value or value ~ '^[A-Za-z0-9][A-Za-z0-9._/-]*$')
  or refuse_value('job_type', value)) not valid;

alter domain run_payload drop constraint payload_is_bounded;
alter domain run_payload add constraint payload_is_bounded check (
  pg_column_size(value) <= 256 and jsonb_typeof(value) in ('object', 'array')
  and not value @? 'strict $.**{1 to last} ? (@.abs() > 9007199254740992)'
  or check_payload(value)) not valid;

-- Every statement reads a trigger's condition from its text, so it is short. The function looks whose INSERT it is.
drop trigger job_runs_plain_insert on job_runs;
create trigger job_runs_plain_insert before insert on job_runs for each row
  when (new.idempotency_key is not null or new.limit_key is not null or new.definition_id is not null or new.dead_at is not null
        or new.status <> 'queued' or new.trigger <> 'application')
  execute function refuse_insert();
