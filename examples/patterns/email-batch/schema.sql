create table if not exists customers (id integer primary key, address text not null);

-- One row for each mail of a campaign. A campaign is named by the uuid of its run.
create table if not exists mails (
  campaign uuid not null,
  customer integer not null references customers,
  run      bigint not null,   -- that sends it
  status   text not null default 'queued' check (status in ('queued', 'sent', 'bounced')),
  primary key (campaign, customer));
