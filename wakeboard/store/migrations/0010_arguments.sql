-- Types for the arguments of the SQL functions: each refuses null and what no caller may pass, in one sentence.

-- A function gets its bounds by declaring these types. The functions that applications call (enqueue, enqueue_many, get_run, cancel_run,
-- once) have built-in types, because some drivers cannot send others; their bodies check the values.
-- Arrays have at most 1,000,000 elements.

-- A changed type of an argument makes another function. Those of the former types are removed; `migrate` writes and grants all functions.
do $$
declare
  former regprocedure;
begin
  for former in
    select oid from pg_proc
     where pronamespace = 'wakeboard'::regnamespace
       and not exists (select from pg_depend where refclassid = 'pg_proc'::regclass and refobjid = pg_proc.oid and deptype = 'n')
  loop
    execute format('drop function %s', former);
  end loop;
end
$$;

-- Its body is in functions/refuse_argument.sql.
create function refuse_argument(argument text, value text, wanted text) returns boolean language sql as 'select false';

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
  value ~ '^(all|queue:[A-Za-z0-9][A-Za-z0-9._/-]{0,62}|schedule:[1-9][0-9]{0,17})$'
  or refuse_argument('scope', value, 'all, queue:NAME or schedule:ID'));
create domain acting_program as text check (
  value in ('cli', 'board', 'kubectl', 'up', 'sql') or refuse_argument('source', value, 'cli, board, kubectl, up or sql'));
create domain bulk_action_name as text check (
  value in ('cancel', 'retry', 'discard', 'replay') or refuse_argument('action', value, 'cancel, retry, discard or replay'));
create domain annotation_action as text check (
  value in ('run-now', 'retry-dead', 'discard-dead') or refuse_argument('action', value, 'run-now, retry-dead or discard-dead'));
create domain annotation_token as text check (
  char_length(value) between 1 and 253 or refuse_argument('token', value, '1 to 253 characters'));

-- Arrays.
create domain id_array as bigint[] check (
  cardinality(value) <= 1000000 or refuse_argument('ids', value::text, 'an array of at most 1000000 ids, such as {1,2}'));
create domain epoch_array as bigint[] check (
  cardinality(value) <= 1000000 and 0 <= all (value) and 4611686018427387904 >= all (value)
  or refuse_argument('epochs', value::text, 'an array of at most 1000000 lease epochs, such as {1,1}'));
create domain queue_array as text[] check (
  cardinality(value) <= 1000000 or refuse_argument('queues', value::text, 'an array of at most 1000000 queues, such as {default}'));
create domain job_type_array as text[] check (
  cardinality(value) <= 1000000 or refuse_argument('job_types', value::text, 'an array of at most 1000000 job types, such as {send_mail}'));
create domain limit_key_array as limit_key_name[] check (
  cardinality(value) <= 1000000 and coalesce(array_ndims(value), 1) = 1 and array_position(value, null) is null
  or refuse_argument('keys', value::text, 'an array of at most 1000000 limit keys, such as {printer}'));
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
  or refuse_argument('reasons', value::text, 'an array of at most 1000000 reasons: worker_stopped, disconnected, snoozed, not_started or null'));
create domain counted_array as boolean[] check (
  cardinality(value) <= 1000000 and coalesce(array_ndims(value), 1) = 1 and array_position(value, null) is null
  or refuse_argument('counted', value::text, 'an array of at most 1000000 booleans without nulls'));
create domain definition_rows as jsonb check (
  jsonb_typeof(value) = 'array' and not value @? 'strict $[*] ? (@.type() != "object")'
  or refuse_argument('rows', value::text, 'an array of objects, one for each schedule'));

-- A table of another role that used one of these types would hold up a later migration that changes the type.
do $$
declare
  own regtype;
begin
  for own in
    select oid from pg_type
     where typnamespace = 'wakeboard'::regnamespace and typtype = 'd'
       and not exists (select from pg_attribute where atttypid = pg_type.oid) and typname <> 'limit_key_name'
  loop
    execute format('revoke usage on type %s from public', own);
  end loop;
end
$$;
