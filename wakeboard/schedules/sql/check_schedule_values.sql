-- internal (called by schedule_many)
-- Raises 22023 for the first value of `options`, the arguments of `schedule` in JSON, that Postgres does not read as the type of its
-- argument. The sentence is the one of `schedule` for a value out of bounds, in place of Postgres's, which names no argument.

create or replace function wakeboard.check_schedule_values(options jsonb)
returns void language plpgsql security definer
as $$
declare
  types constant jsonb := jsonb_build_object(
    -- arguments: '{name}', '{type}'
    'cron', 'text', 'time_zone', 'text', 'queue', 'text', 'priority', 'integer', 'limit_key', 'text', 'concurrency_policy', 'text',
    'catch_up', 'text', 'catch_up_limit', 'integer', 'starting_deadline_s', 'integer', 'jitter_s', 'integer', 'dst_gap', 'text',
    'dst_overlap', 'text', 'suspended', 'boolean', 'suspend_after_dead', 'integer', 'max_attempts', 'integer', 'timeout_s', 'integer',
    'backoff', 'text', 'backoff_base_s', 'integer', 'backoff_cap_s', 'integer', 'every', 'interval', 'at', 'timestamptz',
    'starts_at', 'timestamptz', 'ends_at', 'timestamptz', 'expect_success_within_s', 'integer', 'alert_after_missed', 'integer'
    -- end
  );
  given record;
  wanted text;
begin
  for given in select key, value, types ->> key as type from jsonb_each_text(options) where types ->> key <> 'text' loop
    begin
      case given.type
        when 'integer' then perform given.value::integer;
        when 'boolean' then perform given.value::boolean;
        when 'interval' then perform given.value::interval;
        else perform given.value::timestamptz; end case;
      continue;
    exception when data_exception then
      wanted := case given.type when 'boolean' then 'true or false'
                                when 'timestamptz' then 'a time that exists, with its zone, such as 2027-01-04T08:00:00Z' end;
    end;
    if wanted is null then                   -- as `schedule` says it of a value beyond all bounds; an empty name creates nothing
      begin
        perform schedule_many(jsonb_build_array(jsonb_build_object(
          'name', '', 'job_type', 'a', given.key, case given.type when 'integer' then '2147483647' else '0 s' end)));
      exception when invalid_parameter_value then
        wanted := substring(sqlerrm from '; write (.*)');
      end;
    end if;
    perform refuse_argument(given.key, given.value, wanted);
  end loop;
end
$$;
