-- Minimum retentions, set by the operator or the owner (set_retention). A worker may keep rows for longer, never for less.

alter table installation
  add column history_kept interval not null default '30 days',
  add column keys_kept    interval not null default '7 days',   -- after the run ended
  add column dead_kept    interval,                             -- null: for ever
  add constraint history_is_kept_for_1_to_3650_days check (history_kept between '1 day' and '3650 days'),
  add constraint keys_are_kept_for_0_to_3650_days check (keys_kept between '0' and '3650 days'),
  add constraint keys_are_not_kept_longer_than_history check (keys_kept <= history_kept),
  add constraint dead_runs_are_kept_for_1_to_3650_days check (dead_kept between '1 day' and '3650 days');

-- Bounds for what a worker registers. The function register bounds the number of its types.
alter table workers
  add constraint a_lease_is_1_second_to_1_hour check (lease_s between 1 and 3600) not valid,
  add constraint a_worker_is_named_in_up_to_256_characters
    check (char_length(name) <= 256 and char_length(pool) <= 256 and char_length(host) <= 256 and char_length(version) <= 256) not valid,
  add constraint a_worker_serves_up_to_1000_queues check (cardinality(queues) <= 1000) not valid,
  add constraint capacity_is_1_to_1000000 check (capacity between 1 and 1000000) not valid;

-- Limit keys of schedules cannot be set: a limit that an administrator gave to one disabled its concurrencyPolicy.
update job_limits set max_running = 1, said = false where key like 'schedule:%';
alter table job_limits add constraint limit_is_0_to_1000000 check (max_running <= 1000000) not valid;
