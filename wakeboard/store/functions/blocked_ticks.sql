-- internal (called by enqueue_dependents)
-- Returns those of the ticks (definitions[i], ticks[i]) that cannot be recorded without waiting: another transaction that is still open has
-- inserted the tick or its run. It tries each tick, in a random order, and undoes that. The ticks that it has not tried after 100 ms are
-- returned, too.

create or replace function wakeboard.blocked_ticks(definitions bigint[], ticks timestamptz[])
returns table (definition_id bigint, scheduled_for timestamptz) language plpgsql security definer
set lock_timeout = '5ms'
as $$
#variable_conflict use_column
declare
  began constant timestamptz := clock_timestamp();
  tried record;
begin
  for tried in
    select given.id, given.tick from (select distinct * from unnest(definitions, ticks) as wanted (id, tick)) as given order by random()
  loop
    begin
      if clock_timestamp() < began + interval '100 milliseconds' then
        insert into schedule_ticks (definition_id, scheduled_for) values (tried.id, tried.tick)
        on conflict on constraint a_schedule_has_each_tick_once do nothing;
        insert into job_runs (job_type, definition_id, scheduled_for, trigger) values ('tried', tried.id, tried.tick, 'tick')
        on conflict (definition_id, scheduled_for) where trigger = 'tick' do nothing;
        raise exception using errcode = 'WBUND', message = 'undo';
      end if;
      return query select tried.id, tried.tick;
    exception
      when sqlstate 'WBUND' then
        null;
      when lock_not_available then
        return query select tried.id, tried.tick;
    end;
  end loop;
end
$$;
