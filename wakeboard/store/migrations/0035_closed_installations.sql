-- That an installation was closed for a move, and when: a copy of it that was taken later lacks nothing.
-- locks: installation

alter table installation add column closed_at timestamptz, add column closed_position pg_lsn;
comment on column installation.closed_at is
  'when close_for_move found that no client was left; it counts until resume, and until a server goes on with the database';
comment on column installation.closed_position is 'how far the log of the server was then; null: it does not say';
