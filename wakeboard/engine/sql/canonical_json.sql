-- internal (called by unique_key)
-- Returns the same JSON with its numbers in their shortest form: 1.50 becomes 1.5, and 1.0 becomes 1.

create or replace function wakeboard.canonical_json(value jsonb)
returns jsonb language plpgsql immutable security definer
as $$
begin
  return case jsonb_typeof(value)
    when 'number' then to_jsonb(trim_scale(value::numeric))
    when 'object' then (
      select coalesce(jsonb_object_agg(member.key, canonical_json(member.value)), '{}') from jsonb_each(canonical_json.value) as member)
    when 'array' then (
      select coalesce(jsonb_agg(canonical_json(element.value) order by element.place), '[]')
        from jsonb_array_elements(canonical_json.value) with ordinality as element (value, place))
    else value end;
end
$$;
