create table if not exists customers (id integer generated always as identity primary key, email text not null unique);
create table if not exists reports (customer integer not null references customers, week text not null);
