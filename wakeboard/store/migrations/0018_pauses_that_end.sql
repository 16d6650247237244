-- When a pause ends by itself.
-- locks: pauses

alter table pauses add column until timestamptz;
comment on column pauses.until is 'then maintenance resumes it; null: it lasts until a user does';
