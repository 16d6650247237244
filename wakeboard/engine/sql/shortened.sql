-- for: client, scheduler, worker, operator, viewer, scaler
-- A value as a refusal shows it: its first `most` characters, with three dots if there are more. The types of arguments call it.

create or replace function wakeboard.shortened(value text, most integer default 60)
returns text language sql immutable
as $$
  select case when char_length(value) > most then left(value, most) || '...' else value end
$$;
