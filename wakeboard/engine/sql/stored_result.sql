-- internal (called by complete and step)
-- The form in which a result is stored. A result of more than a megabyte, with more than 32 levels, or with a number beyond the range of a
-- double becomes its own text, cut to 8,000 characters, because clients could not read it.

create or replace function wakeboard.stored_result(result jsonb)
returns jsonb language plpgsql immutable security definer
as $$
begin
  if pg_column_size(result) > 1048576
     or jsonb_path_exists(result, 'strict $.** ? (@ > 1e308 || @ < -1e308)')
     or pg_column_size(result) > 256                 -- a smaller one cannot have so many levels
        and jsonb_path_exists(result, 'strict $.**{32 to last} ? (@.type() == "object" || @.type() == "array")') then
    return to_jsonb(left(result::text, 8000));
  end if;
  return result;
end
$$;
