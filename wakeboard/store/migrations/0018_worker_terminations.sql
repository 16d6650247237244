-- The pod of each worker, and in the attempts why the process of their worker ended, as the kubelet reports it.
-- locks: job_attempts, workers

alter table workers add column pod_uid text;
comment on column workers.pod_uid is 'the uid of its pod; null: unknown';

alter table job_attempts add column cause text, add column pod text;
comment on column job_attempts.cause is 'why the worker''s process ended, such as OOMKilled or Evicted; null: it was not reported';
comment on column job_attempts.pod is 'the pod of that process';

-- It has one argument more now; `migrate` writes it again.
drop function if exists register_worker(
  worker_number, label, label, label, label, queue_array, worker_capacity, lease_duration_s, job_type_array, integer);

create domain termination_cause as text check (
  value ~ '^[A-Za-z]{1,63}$' or refuse_argument('cause', value, 'a word of 1 to 63 letters, such as OOMKilled'));
create domain termination_detail as text check (
  value ~ '^[^\x01-\x1f\x7f-\x9f]*$' and char_length(value) <= 1000
  or refuse_argument('detail', value, 'up to 1000 characters, no control characters'));
revoke usage on type termination_cause, termination_detail from public;
