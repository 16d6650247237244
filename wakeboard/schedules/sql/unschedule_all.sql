-- for: scheduler
-- Removes the schedules of applications whose names match `pattern`, as `unschedule` does, and returns how many. `pattern`: namespace/name,
-- in which a last * stands for any rest, such as customers/42-*. All of them are removed or, after an error, none.
-- Example:
--   select wakeboard.unschedule_all('customers/42-*');

create or replace function wakeboard.unschedule_all(pattern text)
returns integer language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
set lock_timeout = '2s'
as $$
declare
  matching bigint[];
  removed integer;
  ended bigint[];
begin
  matching := array(select id from application_schedules(pattern, '', null)
                    union all select id from application_schedules(pattern, '', null, ended => true));
  begin                                      -- all of them, in the order in which schedule_many and callers edit them
    perform from job_definitions as def where def.id = any (matching)
      order by def.namespace collate "C", def.name collate "C" for update;
  exception when lock_not_available then
    perform refuse_locked_schedule(matching);
  end;
  ended := array(select def.id from job_definitions as def where def.id = any (matching) and def.removed_at is not null
                    and exists (select from job_runs as run where run.definition_id = def.id and run.status in ('queued', 'failed')));
  removed := remove_schedules(matching);
  perform cancel_last_runs(ended) where ended <> '{}';
  perform wait_for_standby();
  return removed + cardinality(ended);
end
$$;
