-- One set of bounds for names, keys and payloads, for whoever writes them. Rows from before are not checked.

-- CHECK constraints call it for an invalid value; it raises the message. functions/refuse_value.sql has its body.
create function refuse_value(what text, value text) returns boolean language sql strict as 'select false';

alter domain job_type_name drop constraint job_type_has_1_to_128_characters;
alter domain job_type_name add constraint job_type_is_a_name
  check (value ~ '^[A-Za-z0-9][A-Za-z0-9._/-]*$' and octet_length(value) <= 128 or refuse_value('job_type', value)) not valid;

alter domain queue_name drop constraint queue_has_1_to_63_characters;
alter domain queue_name add constraint queue_is_a_name
  check (value = 'default' or value ~ '^[A-Za-z0-9][A-Za-z0-9._/-]*$' and octet_length(value) <= 63 or refuse_value('queue', value))
  not valid;

-- 'schedule:N' is the key of one schedule, which materialise and run_now write. No name has a colon.
alter domain limit_key_name drop constraint limit_key_has_1_to_256_characters;
alter domain limit_key_name add constraint limit_key_is_a_name
  check (value ~ '^([A-Za-z0-9][A-Za-z0-9._/-]*|schedule:[0-9]+)$' and octet_length(value) <= 128 or refuse_value('limit_key', value))
  not valid;
alter table job_definitions add constraint limit_key_is_a_name
  check (limit_key not like '%:%' or refuse_value('limit_key', limit_key)) not valid;

-- Small payloads are checked here, in a third of a microsecond. A document of up to 256 bytes cannot be nested 32 levels deep, but may
-- contain a number of thousands of digits.
create function check_payload(payload jsonb) returns boolean language sql strict as 'select false';
alter domain run_payload drop constraint "payload_is_an_object_or_list_up_to_64_KiB_pass_ids_not_blobs";
alter domain run_payload add constraint payload_is_bounded check (
  jsonb_typeof(value) in ('object', 'array') and pg_column_size(value) <= 256
  and not jsonb_path_exists(value, 'strict $.**{1 to last} ? (@ > 9007199254740992 || @ < -9007199254740992)')
  or check_payload(value)) not valid;

alter table job_keys drop constraint idempotency_key_has_1_to_256_characters;
alter table job_keys add constraint idempotency_key_is_printable
  check (key ~ '^[^\x01-\x1f\x7f-\x9f]+$' and char_length(key) <= 256 or refuse_value('idempotency_key', key)) not valid;
alter table job_effects drop constraint effect_key_has_1_to_256_characters;
alter table job_effects add constraint effect_key_is_printable
  check (key ~ '^[^\x01-\x1f\x7f-\x9f]+$' and char_length(key) <= 256 or refuse_value('effect key', key)) not valid;
alter table job_steps add constraint step_name_is_printable
  check (name ~ '^[^\x01-\x1f\x7f-\x9f]+$' and char_length(name) <= 256 or refuse_value('step name', name)) not valid;

-- A plain INSERT makes a fresh run of an application. What only our functions may set, they set under the search
-- path that each of them has. The condition stands here, and not in the trigger's function, so that a bulk insert calls none.
create function refuse_insert() returns trigger language plpgsql as 'begin return new; end';
create trigger job_runs_plain_insert before insert on job_runs for each row
  when ((new.status <> 'queued' or new.trigger <> 'application'
         or num_nonnulls(new.idempotency_key, new.limit_key, new.definition_id, new.dead_at) > 0)
        and current_setting('search_path') <> 'pg_catalog, wakeboard, pg_temp')
  execute function refuse_insert();
