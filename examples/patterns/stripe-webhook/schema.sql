create table if not exists subscriptions (id text primary key, status text not null);
create table if not exists credits (invoice text not null, cents integer not null);   -- run.once guards it: one row for each paid invoice
