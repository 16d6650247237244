-- for: client, scheduler, worker, operator, viewer, scaler
-- Raises 22023 for a value that violates a bound of `field`; the message names the value and says what to write. CHECK constraints call it.
-- Null for null.

create or replace function wakeboard.refuse_value(field text, value text)
returns boolean language plpgsql strict
as $$
declare
  shown text := to_json(shortened(value))::text;
  name constant text := '%s is %s; write letters, digits, dots, underscores, slashes and hyphens,'
    || ' beginning with a letter or digit, at most %s';
begin
  raise exception using errcode = '22023', message = case
    when field in ('job_type', 'limit_key') then format(name, field, shown, 128)
    when field = 'reserved job_type' then                                      -- as in runs_inserted.sql
      format('job_type is %s; names that begin with wakeboard. are of the product, write another one', shown)
    when field = 'queue' then format(name, field, shown, 63)
    when field = 'priority' then format('priority is %s; write a whole number from 1 to 5, of which 5 goes first', value)
    when field = 'backoff' then format('backoff is %s; write exponential or fixed', shown)
    when field = 'source' then format('source is %s; write cli, board, kubectl, up or sql', shown)
    when field = 'next_run_at' then format('next_run_at is %s; write a time from 1970 to 100 years from now', value)
    else format('%s is %s; write 1 to 256 characters, no control characters', field, shown) end;
end
$$;
