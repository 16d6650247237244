-- internal (called by enqueue_many)
-- Locks the runs that the runs of one call will wait for, in the order in which other functions lock runs, and returns those of each of
-- `runs` new ones: of the elements of `after` that are lists. Locks none that the caller cannot name by its uuid, unless it may read all.
-- Raises 22023 if `after` is malformed, and 55P03 if another transaction has locked one of them for two seconds.

create or replace function wakeboard.lock_parents(after jsonb, runs integer)
returns table (place bigint, ids bigint[], uuids uuid[]) language plpgsql security definer
set enable_seqscan = off set jit = off set lock_timeout = '2s'
as $$
declare
  unnamed bigint;                      -- a parent of which the caller knows only the id
begin
  if (jsonb_typeof(after) = 'array' and jsonb_array_length(after) = runs
      and not jsonb_path_exists(after, 'strict $[*] ? (@ != null && @.type() != "array")')
      -- A comparison of another type is unknown, and so is its negation: the well-formed elements are counted.
      and jsonb_array_length(jsonb_path_query_array(after, 'strict $[*] ? (@.type() == "array")[*]'))
        = jsonb_array_length(jsonb_path_query_array(after, 'strict $[*] ? (@.type() == "array")[*] ? (
            @.type() == "number" && @ >= 0 && @ <= 9000000000000000000 && @ == @.floor()
            || @.type() == "object" && @.id.type() == "number" && @.id >= 0 && @.id <= 9000000000000000000 && @.id == @.id.floor()
               && @.uuid like_regex "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$" flag "i")'))
     ) is not true then
    perform refuse_argument('after', after::text, 'for each run null or the ids of runs, such as [[12, 13], null]');
  end if;
  if exists (select from jsonb_path_query(after, 'strict $[*] ? (@.type() == "array" && @.size() > 1000)')) then
    perform refuse_argument('after', after::text, 'for each run null or the ids of up to 1000 runs, such as [[12, 13], null]');
  end if;
  unnamed := jsonb_path_query_first(after, 'strict $[*] ? (@.type() == "array")[*] ? (@.type() == "number")')::bigint;
  if unnamed is not null and not may_use_run_of(null) then         -- as in wait_for_runs, but before anything is locked
    raise exception using errcode = '22023',
      message = format('after holds run %s without its uuid; write what enqueue returned, with its uuid', unnamed);
  end if;
  perform from job_runs
    where id = any (array(
      select wanted.id
        from (select coalesce(parent ->> 'id', parent #>> '{}')::bigint as id, (parent ->> 'uuid')::uuid as uuid
                from jsonb_path_query(after, 'strict $[*] ? (@.type() == "array")[*]') as parent) as wanted
       where wanted.uuid is null or wanted.uuid = (select known.uuid from job_runs as known where known.id = wanted.id)))
    order by id for no key update;
  return query
  select child.place,
         array(select coalesce(parent ->> 'id', parent #>> '{}')::bigint
                 from jsonb_array_elements(child.parents) with ordinality as listed (parent, at) order by at),
         array(select (parent ->> 'uuid')::uuid
                 from jsonb_array_elements(child.parents) with ordinality as listed (parent, at) order by at)
    from jsonb_array_elements(after) with ordinality as child (parents, place)
   where jsonb_typeof(child.parents) = 'array';
exception when lock_not_available then
  perform refuse_locked();
end
$$;
