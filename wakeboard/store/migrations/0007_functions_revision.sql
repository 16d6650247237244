-- Which of two texts of the functions is the newer one, also where both call themselves the same release.

alter table installation add column functions_revision integer not null default 0;
