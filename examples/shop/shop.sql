-- A small shop for SQLite. The dates of orders are relative to today, so the last week always has orders.

create table customers (id integer primary key, name text not null, segment text not null);
create table orders (
  id integer primary key, customer_id integer not null references customers, placed_on text not null, cents integer not null);

insert into customers (id, name, segment) values
  (1, 'Alves & Filhos', 'active'), (2, 'Bakkerij Bos', 'active'), (3, 'Café Central', 'active'),
  (4, 'Dufour SARL', 'active'), (5, 'Ekström AB', 'new'), (6, 'Farkas Kft.', 'new'), (7, 'Grau GmbH', 'asleep');

with placed (customer_id, days_ago, cents) as (
  values
    (1, 1, 12900), (2, 1, 4550), (3, 1, 8000), (1, 2, 2300), (5, 2, 19900), (4, 3, 7425), (2, 3, 4550), (3, 4, 8000),
    (6, 4, 1250), (1, 5, 31000), (4, 5, 2200), (2, 6, 4550), (5, 6, 5600), (3, 7, 8000), (1, 7, 9900),
    (2, 8, 4550), (4, 9, 18000), (3, 10, 8000), (7, 41, 650))
insert into orders (customer_id, placed_on, cents)
select customer_id, date('now', '-' || days_ago || ' days'), cents from placed;
