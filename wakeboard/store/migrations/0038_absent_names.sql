-- A plain INSERT without a name has a null, so that an empty name, which is a mistake of the application, is refused.
-- locks: job_definitions

alter table job_definitions alter column name drop default;
