-- How many runs were due and waited, minute by minute; and an index of the audit log for viewers of some namespaces.
-- locks: audit_log

-- `roll_up` writes here; nothing else does, and neither a claim nor a completion.
create table backlog_samples (
  sampled_at timestamptz primary key,
  due        bigint not null,
  constraint a_sample_is_of_a_whole_minute check (date_bin('1 minute', sampled_at, 'epoch') = sampled_at),
  constraint a_backlog_is_not_negative check (due >= 0)
);
comment on table backlog_samples is 'How many runs waited, once a minute while maintenance runs. Kept for 100 days.';
comment on column backlog_samples.due is 'runs that were due and not running, at most 100,000 of each queue and priority';

create index audit_log_namespace on audit_log (split_part(schedule, '/', 1), id) where schedule is not null;
