-- Each table has one part for each day. A run replaces the part of its day.
create table if not exists raw (source text not null, day date not null, id integer not null, cents integer not null,
                                primary key (source, day, id));
create table if not exists daily (day date primary key, orders integer not null, refunds integer not null,
                                  cents integer not null);
