-- for: client, scheduler, worker, operator, viewer, scaler
-- Raises 22023 for an argument that its type refuses; the message names the argument and its value and says what to write. The types of
-- arguments call it. Of several columns that share a type (`a, b or c`), it names the one that the statement has, if that is only one.

create or replace function wakeboard.refuse_argument(argument text, value text, wanted text)
returns boolean language plpgsql
as $$
declare
  calls text;                          -- has the statement, if a function of another has sent it
  statement text;
  named text[];
begin
  if argument like '% or %' then
    get diagnostics calls = pg_context;
    statement := case when exists (select from regexp_split_to_table(calls, '\n') as line where line not like '%PL/pgSQL%')
                      then substring(calls from '\nSQL statement "([^"]*)') else current_query() end;
    named := array(select name from regexp_split_to_table(argument, ', | or ') as name where statement ~ ('\m' || name || '\M'));
  end if;
  raise exception using errcode = '22023', message = format(
    '%s is %s; write %s', case when cardinality(named) = 1 then named[1] else argument end, case
      when value is null then 'null'
      when char_length(value) <= 60 and value ~ '^(-?[0-9.]+(e[+-]?[0-9]+)?|[{][-0-9,.]*[}])$' then value
      else to_json(shortened(value))::text end, wanted);
end
$$;
