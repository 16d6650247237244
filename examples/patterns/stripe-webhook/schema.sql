create table if not exists subscriptions (id text primary key, status text not null);
create table if not exists credits (invoice text primary key, cents integer not null);   -- one for each paid invoice
