-- Notifications about alerts. Each delivery is a run of the job type wakeboard.alert.
-- locks: alerts

alter table alerts add column notified_at timestamptz;
comment on column alerts.notified_at is 'when the newest notification that it is open was enqueued; null: none was';

create table alert_deliveries (
  run_id       bigint primary key,
  alert_id     bigint not null references alerts (id) on delete cascade,
  receiver     text not null,
  notification text not null,
  constraint "notification_is_open_repeat_or_resolved" check (notification in ('open', 'repeat', 'resolved')),
  constraint receiver_is_named_in_up_to_63_characters check (char_length(receiver) between 1 and 63)
);
create index alert_deliveries_alert on alert_deliveries (alert_id);
create unique index an_alert_opens_and_resolves_once_for_each_receiver on alert_deliveries (alert_id, receiver, notification)
  where notification <> 'repeat';
comment on table alert_deliveries is 'Notifications about alerts, and the run that delivers each.';

-- Their successors have more columns or parameters.
drop function if exists claim_alert_rules(jsonb);
drop function if exists record_alert(text, timestamptz, boolean, text, double precision, text[]);
