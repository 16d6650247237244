-- internal (called by joins_to_check)
-- The schedule whose cron expression the ticks of a schedule come from: itself, or the first one before it that has one. Null: there is
-- none.

create or replace function wakeboard.source_of_ticks(definition bigint)
returns bigint language plpgsql stable security definer
set enable_seqscan = off
as $$
begin
  for step in 1 .. 100 loop                  -- a cycle ends, too
    if exists (select from job_definitions where id = definition and cron_fields is not null) then
      return definition;
    end if;
    select parent_id into definition from schedule_dependencies
     where definition_id = definition and ticks = 'Same' order by place limit 1;
    exit when definition is null;
  end loop;
  return null;
end
$$;
