-- for: client, scheduler, worker, operator, viewer, scaler
-- Raises 22023 for an argument that its type refuses; the message names the argument and its value and says what to write. The types of
-- arguments call it.

create or replace function wakeboard.refuse_argument(argument text, value text, wanted text)
returns boolean language plpgsql
as $$
begin
  raise exception using errcode = '22023', message = format(
    '%s is %s; write %s', argument, case
      when value is null then 'null'
      when value ~ '^(-?[0-9.]+(e[+-]?[0-9]+)?|[{][-0-9,.]*[}])$' and char_length(value) <= 60 then value
      else to_json(case when char_length(value) > 60 then left(value, 60) || '...' else value end)::text end, wanted);
end
$$;
