-- Which server holds the database, and each time that another one, or the same one after a restart, went on with it.
-- locks: installation

alter table installation add column server_system bigint, add column server_timeline integer, add column server_started_at timestamptz,
  add column server_table oid, add column commits_wait boolean not null default false;
comment on column installation.server_system is 'the system identifier of the server; null: it does not say';
comment on column installation.server_timeline is 'the timeline of the server; null: it does not say';
comment on column installation.server_started_at is 'when the server started: two servers, and two starts of one, differ in it';
comment on column installation.server_table is 'the oid of this table: a restore from a dump gives it another one';
comment on column installation.commits_wait is 'whether commits waited for a synchronous standby at the last maintenance';

-- The newest commit of its own that a process knows: on which server, and how far its log was. Processes receive it as a text.
create type server_seen as (
  started_at timestamptz,
  server_table oid,
  log_position pg_lsn,                     -- null: the server does not say, or the process has committed nothing yet
  seen_at timestamptz,
  newest_id bigint);                   -- the highest id of a run that the server had given then

alter type fetch_state add attribute seen wakeboard.server_seen;

create table server_changes (
  id              bigint generated always as identity primary key,
  noticed_at      timestamptz not null default statement_timestamp(),
  kind            text not null,
  at_risk         boolean not null,
  from_system     bigint,
  from_timeline   integer,
  from_started_at timestamptz not null,
  from_table      oid not null,
  to_system       bigint,
  to_timeline     integer,
  to_started_at   timestamptz not null,
  to_table        oid not null,
  kept_until      timestamptz not null,
  kept_position   pg_lsn,
  kept_id         bigint not null,
  lost            boolean not null default false,
  seen_until      timestamptz,
  seen_id         bigint,
  seen_by         text,
  acknowledged_at timestamptz,
  constraint a_server_is_succeeded_once_by_another unique (from_started_at, from_table, to_started_at, to_table),
  constraint "kind_is_restarted_promoted_or_moved" check (kind in ('restarted', 'promoted', 'moved'))
);
create index server_changes_unacknowledged on server_changes (id) where (at_risk or lost) and acknowledged_at is null;
comment on table server_changes is
  'Each time that another server, or the same one after a restart, went on with the database: perhaps from an earlier moment.';
comment on column server_changes.kind is
  'restarted: the same server and timeline; promoted: another timeline (a failover, a switchover, a restore to a point in time);
moved: another system or table (a dump, a major upgrade)';
comment on column server_changes.at_risk is 'commits of the former server may be missing, as far as the new one can know';
comment on column server_changes.kept_until is 'the newest commit of the former server that is known to be kept';
comment on column server_changes.kept_position is 'where the log of the former server ends for the new one; null: not known';
comment on column server_changes.kept_id is 'the highest id of a run that was given when the change was noticed';
comment on column server_changes.lost is 'a process had committed something behind kept_position';
comment on column server_changes.seen_until is 'until when a process is known to have used the former server';
comment on column server_changes.seen_id is 'the highest id of a run that the former server is known to have given';
comment on column server_changes.seen_by is 'that process';

update installation set server_started_at = pg_postmaster_start_time(), server_table = 'installation'::regclass;
