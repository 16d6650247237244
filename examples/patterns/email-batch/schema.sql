create table if not exists customers (id integer primary key, address text not null);

-- What became of each mail of a campaign.
create table if not exists mails (
  campaign text not null,
  customer integer not null references customers,
  run      bigint not null,   -- that sends it
  status   text not null default 'queued' check (status in ('queued', 'sent', 'bounced')),
  primary key (campaign, customer));
