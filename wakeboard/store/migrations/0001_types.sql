-- Types: what callers of the SQL functions may pass, and what columns may hold. Each refusal is one sentence.

-- The domains call these functions for a value out of bounds, and the functions raise the error. Their bodies are in engine/sql/.
create function refuse_argument(argument text, value text, wanted text) returns boolean language sql as 'select false';
create function refuse_value(field text, value text) returns boolean language sql strict as 'select false';
create function check_payload(payload jsonb) returns boolean language sql strict as 'select false';

-- Types of arguments. A function gets its bounds by declaring them. The functions that applications call (enqueue, enqueue_many, get_run,
-- cancel_run, once) have built-in types, because some drivers cannot send others; their bodies check the values.

-- Numbers.
create domain worker_number as bigint check (
  value <> 0 or refuse_argument('worker', value::text, 'the id of a worker, a whole number other than 0'));
create domain run_number as bigint check (value > 0 or refuse_argument('run_id', value::text, 'the id of a run'));
create domain definition_number as bigint check (value > 0 or refuse_argument('definition', value::text, 'the id of a schedule'));
create domain lease_number as bigint check (
  value between 0 and 4611686018427387904 or refuse_argument('epoch', value::text, 'the lease epoch that a claim returned'));
create domain leader_term as bigint check (
  value between 0 and 4611686018427387904 or refuse_argument('term', value::text, 'the term that acquire_leadership returned'));
create domain process_number as integer check (value is not null or refuse_argument('client_pid', null, 'the process id of the session'));
create domain row_count as integer check (
  value between 0 and 1000000 or refuse_argument('count', value::text, 'a whole number from 0 to 1000000'));
create domain scan_id as bigint check (value >= 0 or refuse_argument('after_id', value::text, '0, or the id after which to continue'));
create domain scan_time as timestamptz check (
  value is not null or refuse_argument('after_run_at', null, '-infinity, or the time after which to continue'));
create domain scan_size as integer check (
  value is null or value between 1 and 1000000
  or refuse_argument('scan_limit', value::text, 'a whole number from 1 to 1000000, or null for no limit'));
create domain slice_size as integer check (
  value between 1 and 1000000 or refuse_argument('slice', value::text, 'a whole number from 1 to 1000000'));
create domain lease_duration_s as integer check (
  value between 1 and 3600 or refuse_argument('lease_s', value::text, 'a number of seconds from 1 to 3600'));
create domain leader_lease_s as integer check (
  value between 1 and 300 or refuse_argument('lease_s', value::text, 'a number of seconds from 1 to 300'));
create domain longest_timeout_s as integer check (
  value between 1 and 2678400 or refuse_argument('max_timeout_s', value::text, 'a number of seconds from 1 to 2678400 (31 days)'));
create domain horizon_s as double precision check (
  value between 0 and 1e9 or refuse_argument('within_s', value::text, 'a number of seconds from 0 to 1000000000'));
create domain worker_capacity as integer check (
  value between 1 and 1000000 or refuse_argument('capacity', value::text, 'a whole number from 1 to 1000000'));
create domain unit_count as integer check (
  value between 1 and 1000000 or refuse_argument('units', value::text, 'a whole number from 1 to 1000000'));
create domain limit_pause_s as double precision check (
  value between 0 and 86400 or refuse_argument('pause_s', value::text, 'a number of seconds from 0 to 86400 (a day)'));
create domain backfill_number as bigint check (
  value > 0 or refuse_argument('backfill', value::text, 'the id of a backfill'));
create domain backfill_limit as integer check (
  value between 1 and 1000000 or refuse_argument('at_once', value::text, 'a whole number from 1 to 1000000'));
create domain switch as boolean check (value is not null or refuse_argument('a switch', null, 'true or false'));

-- Texts.
create domain source_name as text check (
  value ~ '^[^\x01-\x1f\x7f-\x9f]+$' and char_length(value) <= 400
  or refuse_argument('source', value, '1 to 400 characters, no control characters'));
create domain process_name as text check (
  value ~ '^[^\x01-\x1f\x7f-\x9f]+$' and char_length(value) <= 256
  or refuse_argument('holder', value, '1 to 256 characters, no control characters'));
create domain label as text check (
  char_length(value) <= 256 or refuse_argument('a name, pool, host, version or release', value, 'up to 256 characters'));
create domain list_hash as text check (
  char_length(value) <= 256 or refuse_argument('names_hash', value, 'up to 256 characters'));
create domain step_name as text check (
  value is not null or refuse_argument('step name', null, '1 to 256 characters, no control characters'));
create domain effect_key as text check (
  value is not null or refuse_argument('effect key', null, '1 to 256 characters, no control characters'));
create domain pause_scope as text check (
  value ~ '^(all|queue:[A-Za-z0-9][A-Za-z0-9._/-]{0,62}|(schedule|backfill):[1-9][0-9]{0,17})$'
  or refuse_argument('scope', value, 'all, queue:NAME, schedule:ID or backfill:ID'));
create domain acting_program as text check (
  value in ('cli', 'board', 'kubectl', 'up', 'sql') or refuse_argument('source', value, 'cli, board, kubectl, up or sql'));
create domain bulk_action_name as text check (
  value in ('cancel', 'retry', 'discard', 'replay') or refuse_argument('action', value, 'cancel, retry, discard or replay'));
create domain annotation_action as text check (
  value in ('run-now', 'retry-dead', 'discard-dead', 'backfill')
  or refuse_argument('action', value, 'run-now, retry-dead, discard-dead or backfill'));
create domain annotation_token as text check (
  char_length(value) between 1 and 253 or refuse_argument('token', value, '1 to 253 characters'));
create domain termination_cause as text check (
  value ~ '^[A-Za-z]{1,63}$' or refuse_argument('cause', value, 'a word of 1 to 63 letters, such as OOMKilled'));
create domain termination_detail as text check (
  value ~ '^[^\x01-\x1f\x7f-\x9f]*$' and char_length(value) <= 1000
  or refuse_argument('detail', value, 'up to 1000 characters, no control characters'));

-- Arrays, of at most 1,000,000 elements.
create domain id_array as bigint[] check (
  cardinality(value) <= 1000000 or refuse_argument('ids', value::text, 'an array of at most 1000000 ids, such as {1,2}'));
create domain epoch_array as bigint[] check (
  cardinality(value) <= 1000000 and 0 <= all (value) and 4611686018427387904 >= all (value)
  or refuse_argument('epochs', value::text, 'an array of at most 1000000 lease epochs, such as {1,1}'));
create domain queue_array as text[] check (
  cardinality(value) <= 1000000 or refuse_argument('queues', value::text, 'an array of at most 1000000 queues, such as {default}'));
create domain job_type_array as text[] check (
  cardinality(value) <= 1000000 or refuse_argument('job_types', value::text, 'an array of at most 1000000 job types, such as {send_mail}'));
create domain priority_array as smallint[] check (
  cardinality(value) <= 1000000 or refuse_argument('priorities', value::text, 'an array of at most 1000000 priorities, such as {5,4}'));
create domain scan_time_array as timestamptz[] check (
  cardinality(value) <= 1000000 or refuse_argument('after_run_at', value::text, 'an array of at most 1000000 times, such as {-infinity}'));
create domain scan_id_array as bigint[] check (
  cardinality(value) <= 1000000 or refuse_argument('after_id', value::text, 'an array of at most 1000000 ids, such as {0}'));
create domain age_array as real[] check (
  cardinality(value) <= 1000000 and ('NaN' = any (value)) is not true
  or refuse_argument('ages_s', value::text, 'an array of at most 1000000 numbers of seconds and nulls'));
create domain progress_array as real[] check (
  cardinality(value) <= 1000000 and ('NaN' = any (value)) is not true
  or refuse_argument('progresses', value::text, 'an array of at most 1000000 numbers from 0 to 1 and nulls'));
create domain delay_array as real[] check (
  cardinality(value) <= 1000000 and ('NaN' = any (value)) is not true
  or refuse_argument('delays_s', value::text, 'an array of at most 1000000 numbers of seconds and nulls'));
create domain outcome_array as text[] check (
  cardinality(value) <= 1000000 and value <@ array['failed', 'timed_out', 'discarded']
  or refuse_argument('outcomes', value::text, 'an array of at most 1000000 outcomes: failed, timed_out or discarded'));
create domain reason_array as text[] check (
  value is null
  or cardinality(value) <= 1000000 and coalesce(array_ndims(value), 1) = 1
     and array_remove(value, null) <@ array['worker_stopped', 'disconnected', 'snoozed', 'not_started']
  or refuse_argument('reasons', value::text,
                     'an array of at most 1000000 reasons: worker_stopped, disconnected, snoozed, not_started or null'));
create domain counted_array as boolean[] check (
  cardinality(value) <= 1000000 and coalesce(array_ndims(value), 1) = 1 and array_position(value, null) is null
  or refuse_argument('counted', value::text, 'an array of at most 1000000 booleans without nulls'));
create domain backfill_tick_array as timestamptz[] check (
  cardinality(value) <= 1000000 and coalesce(array_ndims(value), 1) = 1 and array_position(value, null) is null
  and 'epoch' <= all (value) and '3000-01-01 00:00+00' > all (value)
  or refuse_argument('ticks', left(value::text, 60), 'an array of at most 1000000 times from 1970 to 2999'));
create domain definition_rows as jsonb check (
  jsonb_typeof(value) = 'array' and not value @? 'strict $[*] ? (@.type() != "object")'
  or refuse_argument('rows', value::text, 'an array of objects, one for each schedule'));

-- A table of another role that used one of these types would hold up a later migration that changes the type.
do $$
declare
  own regtype;
begin
  for own in select oid from pg_type where typnamespace = 'wakeboard'::regnamespace and typtype = 'd' loop
    execute format('revoke usage on type %s from public', own);
  end loop;
end
$$;

-- Types of columns.

create type run_status as enum ('queued', 'running', 'failed', 'dead', 'succeeded', 'cancelled', 'skipped');
create type run_trigger as enum ('tick', 'manual', 'replay', 'application', 'backfill');
create type backoff_strategy as enum ('exponential', 'fixed');

-- A lower-case identifier, as most job types are, equals its own quoted form: that test is cheaper than the pattern.
create domain job_type_name as text constraint job_type_is_a_name check (
  octet_length(value) <= 128
  and (ascii(value) > ascii('_') and quote_ident(value) = value or value ~ '^[A-Za-z0-9][A-Za-z0-9._/-]*$')
  or refuse_value('job_type', value));
create domain queue_name as text constraint queue_is_a_name check (
  value = 'default' or value ~ '^[A-Za-z0-9][A-Za-z0-9._/-]*$' and octet_length(value) <= 63 or refuse_value('queue', value));
-- No name contains a colon. 'schedule:N' and 'backfill:N' are the keys of one schedule and of one backfill; SQL functions write them.
create domain limit_key_name as text constraint limit_key_is_a_name check (
  value ~ '^([A-Za-z0-9][A-Za-z0-9._/-]*|(schedule|backfill):[0-9]+)$' and octet_length(value) <= 128
  or refuse_value('limit_key', value));
create domain limit_key_array as limit_key_name[] check (
  cardinality(value) <= 1000000 and coalesce(array_ndims(value), 1) = 1 and array_position(value, null) is null
  or refuse_argument('keys', value::text, 'an array of at most 1000000 limit keys, such as {printer}'));
revoke usage on type limit_key_array from public;
create domain run_priority as smallint
  constraint priority_is_1_to_5_and_5_goes_first check (value between 1 and 5);
-- Small payloads are checked here, in a third of a microsecond. A document of up to 256 bytes cannot be nested 32 levels deep, but may
-- contain a number of thousands of digits.
create domain run_payload as jsonb constraint payload_is_bounded check (
  pg_column_size(value) <= 256 and jsonb_typeof(value) in ('object', 'array')
  and not value @? 'strict $.**{1 to last} ? (@.abs() > 9007199254740992)'
  or check_payload(value));
create domain attempt_limit as integer
  constraint max_attempts_is_1_to_1000 check (value between 1 and 1000);
create domain duration_s as integer
  constraint a_duration_is_1_second_to_31_days check (value between 1 and 2678400);

-- Who acts, and the program through which. Both are what the caller says; audit_log.database_user is who Postgres let in.
create domain audit_actor as text constraint actor_is_printable check (
  value ~ '^[^\x01-\x1f\x7f-\x9f]+$' and char_length(value) <= 256 or refuse_value('actor', value));
create domain audit_source as text constraint source_is_known check (
  value in ('cli', 'board', 'kubectl', 'up', 'sql') or refuse_value('source', value));
