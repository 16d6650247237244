-- From which epoch on leases are valid: those from before the database went back in time are not.
-- locks: installation

alter table installation add column lease_base bigint not null default 0;
comment on column installation.lease_base is
  'leases with a lower epoch are void: they were granted before the database went back in time, or may have been';
