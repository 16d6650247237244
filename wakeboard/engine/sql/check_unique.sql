-- internal (called by enqueue and enqueue_many)
-- Raises 22023 unless the arguments define a unique window.

create or replace function wakeboard.check_unique(unique_for integer, unique_by text[], if_exists text, has_idempotency_key boolean)
returns void language plpgsql security definer
as $$
begin
  if unique_for between 1 and 2678400 is not true then
    perform refuse_argument('unique_for', unique_for::text, 'a number of seconds from 1 to 2678400 (31 days)');
  elsif coalesce(if_exists, 'keep') not in ('keep', 'replace') then
    perform refuse_argument('if_exists', if_exists, 'keep or replace');
  elsif cardinality(unique_by) > 16 or array_ndims(unique_by) > 1
        or exists (select from unnest(unique_by) as name where name is null or char_length(name) not between 1 and 256) then
    perform refuse_argument('unique_by', unique_by::text, 'up to 16 keys of the payload, such as {customer}');
  elsif has_idempotency_key then
    raise exception using errcode = '22023',
      message = 'a run has unique_for or an idempotency key, not both; leave one of them out';
  end if;
end
$$;
