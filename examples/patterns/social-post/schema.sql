create table if not exists posts (
  id         integer generated always as identity primary key,
  text       text not null,
  publish_at timestamptz not null,
  status     text not null default 'scheduled' check (status in ('scheduled', 'publishing', 'published', 'withdrawn')),
  url        text);
