-- Where a schedule comes from and its labels, as its source declares them. Both are shown and filtered by; nothing depends on them.
-- locks: job_definitions

alter table job_definitions
  add column origin text not null default '',
  add column labels jsonb not null default '{}',
  add constraint origin_has_at_most_300_characters check (char_length(origin) <= 300),
  add constraint "labels_are_an_object_of_at_most_8_KiB" check (jsonb_typeof(labels) = 'object' and pg_column_size(labels) <= 8192);
comment on column job_definitions.origin is 'the object of a GitOps tool that declares the schedule, in words; empty if none is known';
comment on column job_definitions.labels is 'labels of the schedule, without those of tools';

drop function if exists list_definitions(source_name);  -- it returns more columns
