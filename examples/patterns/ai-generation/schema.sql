create table if not exists articles (
  id      integer generated always as identity primary key,
  tenant  text not null,
  prompts text[] not null);   -- one for each section; only this table has them

create table if not exists sections (
  article integer not null references articles,
  number  integer not null,
  text    text not null,
  tokens  integer not null,   -- what the tenant pays
  primary key (article, number));
