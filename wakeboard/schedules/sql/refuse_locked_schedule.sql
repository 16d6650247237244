-- internal (called by remove_schedules, cancel_last_runs and unschedule_all)
-- Raises 55P03 after a wait for a lock has ended. It names the first of these schedules that another transaction keeps locked, or of which
-- it keeps a waiting run locked, if it still does.

create or replace function wakeboard.refuse_locked_schedule(ids bigint[])
returns void language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
set lock_timeout = '100ms'
as $$
declare
  mine bigint[];
  waiting bigint[];
  named text;
begin
  mine := array(select id from job_definitions where id = any (ids) for update skip locked);
  waiting := array(select id from job_runs where definition_id = any (ids) and status in ('queued', 'failed') for update skip locked);
  select concat(def.namespace, '/', def.name) into named
    from (select id from unnest(ids) as id except select id from unnest(mine) as id
          union all
          select run.definition_id
            from (select id from job_runs where definition_id = any (ids) and status in ('queued', 'failed')
                  except select id from unnest(waiting) as id) as busy join job_runs as run on run.id = busy.id) as busy
    join job_definitions as def on def.id = busy.id
   order by def.namespace collate "C", def.name collate "C"
   limit 1;
  perform refuse_locked(named);
exception when lock_not_available then
  perform refuse_locked(named);
end
$$;
