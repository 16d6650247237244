-- for: operator
-- Makes `limits` the limits that `source` declares: an array of objects with key and max_running, or rate_count, rate_period_s and
-- rate_burst, or all four, as set_limit and set_rate_limit take them. A limit is set when its declaration is new or has changed, so a
-- limit that an administrator sets afterwards stays until the next change (`wakeboard limit` shows that it differs). A key that is no
-- longer declared gets the newest declaration of another source, or the default; but not if an administrator has set another limit since.
-- Returns the keys whose declarations changed: 'set', 'removed', or 'kept' (no longer declared, set by an administrator); and with 'locked'
-- those that another transaction has locked: they stay as they were until a later call. If one limit is refused, none is changed. A repeat
-- changes nothing. Writes audit rows for the limits that it sets (see Audit).
-- Example:
--   select * from wakeboard.declare_limits('file:demo', '[{"key": "openai-api", "rate_count": 60, "rate_period_s": 60, "rate_burst":
--   10}]');

create or replace function wakeboard.declare_limits(
  source wakeboard.source_name, limits jsonb, actor wakeboard.audit_actor default null, program wakeboard.acting_program default 'sql')
returns table (key text, answer text) language plpgsql security definer
set jit = off set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  wanted jsonb := '{}';                      -- by key: the four numbers
  declared jsonb;
  changed_key text;
  present jsonb;
  next jsonb;
  result text;
  waits integer := 0;                        -- for keys that another transaction is inserting
begin
  perform require_read_committed('declare_limits');
  if source is null then
    perform refuse_argument('source', null, '1 to 400 characters, no control characters');
  elsif jsonb_typeof(limits) = 'array' is not true or exists (
       select from jsonb_array_elements(limits) as given
        where (jsonb_typeof(given -> 'key') = 'string'
               and num_nonnulls(given ->> 'max_running', given ->> 'rate_count') > 0) is not true) then
    raise exception using errcode = '22023', message =
      'limits must be an array of objects with key and max_running, or rate_count, rate_period_s and rate_burst';
  elsif jsonb_array_length(limits) > 1000 then
    raise exception using errcode = '22023', message = 'limits has more than 1000 keys';
  elsif exists (select from jsonb_array_elements(limits) as given group by given ->> 'key' having count(*) > 1) then
    raise exception using errcode = '22023', message = 'limits names a key twice; write one object for each key';
  end if;
  select coalesce(jsonb_object_agg(key, jsonb_build_array(max_running, rate_count, rate_period_s, rate_burst)), '{}') into wanted
    from jsonb_to_recordset(limits) as given (key text, max_running integer, rate_count integer, rate_period_s integer, rate_burst integer);
  for tries in 1..2 loop                     -- nearly always nothing has changed; otherwise read again under the lock
    select coalesce(jsonb_object_agg(known.key, jsonb_build_array(max_running, rate_count, rate_period_s, rate_burst)), '{}') into declared
      from declared_limits as known where known.source = declare_limits.source;
    if declared = wanted then
      perform wait_for_standby();
      return;
    end if;
    lock table declared_limits in share row exclusive mode;
  end loop;

  for changed_key, next in
    select coalesce(after.key, before.key), after.value
      from jsonb_each(declared) as before full join jsonb_each(wanted) as after on after.key = before.key
     where after.value is distinct from before.value
     order by random()                        -- so that not the same keys are left each time
  loop
    begin
      perform from declared_limits as known where known.source = declare_limits.source and known.key = changed_key for update nowait;
      perform from job_limits as bound where bound.key = changed_key for no key update nowait;
      if not found and next is not null then
        if waits = 4 then                    -- of 50 ms; a later call sets the others
          raise lock_not_available;
        end if;
        waits := waits + 1;
        perform set_config('lock_timeout', '50ms', true);
        insert into job_limits (key) values (changed_key) on conflict do nothing;      -- another transaction may have inserted it
        perform set_config('lock_timeout', '2s', true);
        waits := waits - 1;
      end if;
      if next is not null then
        insert into declared_limits as known (source, key, max_running, rate_count, rate_period_s, rate_burst)
        values (declare_limits.source, changed_key, (next ->> 0)::integer, (next ->> 1)::integer, (next ->> 2)::integer,
                (next ->> 3)::integer)
        on conflict on constraint declared_limits_pkey do update
           set max_running = excluded.max_running, rate_count = excluded.rate_count, rate_period_s = excluded.rate_period_s,
               rate_burst = excluded.rate_burst, declared_at = excluded.declared_at;
      else
        delete from declared_limits as known where known.source = declare_limits.source and known.key = changed_key;
      end if;
      select jsonb_build_array(case when bound.is_explicit then bound.max_running end, bound.rate_count, bound.rate_period_s,
                                bound.rate_burst)
        into present
        from (select) as one left join job_limits as bound on bound.key = changed_key;
      if next is null and present <> declared -> changed_key then
        result := 'kept';
      else
        result := case when next is null then 'removed' else 'set' end;
        if next is null then
          select jsonb_build_array(other.max_running, other.rate_count, other.rate_period_s, other.rate_burst) into next
            from declared_limits as other where other.key = changed_key order by other.declared_at desc, other.source limit 1;
        end if;
        if (next ->> 0)::integer is distinct from (present ->> 0)::integer then
          perform set_limit(changed_key, (next ->> 0)::integer, left('declared by ' || declare_limits.source, 200), actor, program);
        end if;
        if next - 0 is distinct from present - 0 and (next ->> 1, present ->> 1) is distinct from (null::text, null::text) then
          perform set_rate_limit(changed_key, (next ->> 1)::integer, (next ->> 2)::integer, (next ->> 3)::integer,
                                 left('declared by ' || declare_limits.source, 200), actor, program);
        end if;
      end if;
    exception when lock_not_available then   -- of this key: it is still as it was
      result := 'locked';
    end;
    return query select changed_key, result;
  end loop;
exception
  when lock_not_available then
    perform refuse_locked();
  when data_exception then
    if sqlstate = '22023' then
      raise;                                 -- a sentence of ours
    end if;
    raise exception using errcode = '22023', message = 'limits holds a value that is not a whole number: ' || sqlerrm;
end
$$;
