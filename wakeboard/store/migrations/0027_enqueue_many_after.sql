-- It has one argument more now; `migrate` writes it again.
drop function if exists enqueue_many(
  text[], jsonb[], text[], integer[], timestamptz[], text[], text[], integer, integer, integer, text[], text, text, text);
