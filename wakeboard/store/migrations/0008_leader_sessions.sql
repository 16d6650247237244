-- Whether the leader's database session holds the advisory lock of its source. The server releases it when that session ends, so
-- that a standby learns of a killed leader without waiting for the lease.

alter table leadership add column by_session boolean not null default false;
