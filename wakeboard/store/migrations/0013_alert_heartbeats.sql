-- Heartbeats: urls that are called while no alert is open.

create table alert_heartbeats (
  name        text collate "C" primary key,
  enqueued_at timestamptz not null default 'epoch',
  run_id      bigint,
  constraint heartbeat_is_named_in_up_to_63_characters check (char_length(name) between 1 and 63)
) with (fillfactor = 50);
comment on table alert_heartbeats is 'When the newest run was enqueued that calls the url of each heartbeat.';
