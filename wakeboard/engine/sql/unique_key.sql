-- internal (called by enqueue and enqueue_unique_runs)
-- Returns a hash of the values that `payload` has under these names, or of the whole payload if `names` is null. Payloads that mean the
-- same have the same hash: the order of keys and of names does not matter, null equals absent, and 1.0 equals 1. Raises 22023 for names
-- of a payload that is a list.

create or replace function wakeboard.unique_key(payload jsonb, names text[])
returns bytea language plpgsql immutable security definer
as $$
declare
  named jsonb := jsonb_strip_nulls(case when names is null then jsonb_build_object('payload', payload) else (
    select coalesce(jsonb_agg(jsonb_build_array(name, payload -> name) order by name collate "C"), '[]')
      from (select distinct unnest(names)) as wanted (name)) end);
begin
  if cardinality(names) > 0 and jsonb_typeof(payload) <> 'object' then        -- no name would tell two lists apart
    perform refuse_argument('unique_by', names::text, 'no key: the payload is a list, which has none');
  end if;
  if named::text ~ '[.][0-9]*0' then                    -- perhaps a number with zeros at its end
    named := canonical_json(named);
  end if;
  return sha256(convert_to(named::text, 'UTF8'));
end
$$;
