-- Walks over the leases: when they began, and whether one had to leave something behind.

alter table installation
  add column walked_at    timestamptz not null default 'epoch',   -- the last walk began
  add column passed_by_at timestamptz not null default 'epoch';   -- a walk passed by a lapsed lease that it could not take
comment on column installation.reaped_at is 'the last walk that came to its end and left nothing behind began';
