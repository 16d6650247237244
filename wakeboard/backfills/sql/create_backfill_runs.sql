-- internal (called by create_backfill, resume and continue_backfills)
-- Creates the next runs of a backfill, oldest tick first, until 1,000 of its runs are unfinished. Returns how many. Creates none while the
-- schedule or its queue is paused, and none of a schedule that is removed or whose row another transaction has locked. The caller has
-- locked the backfill, so that each tick becomes one run.

create or replace function wakeboard.create_backfill_runs(backfill bigint)
returns integer language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
declare
  job backfills;
  def job_definitions;
  room integer;
  made integer;
begin
  select * into job from backfills where id = backfill;
  if job.created = job.total or job.paused_at is not null or job.finished_at is not null then
    return 0;
  end if;
  -- its keys stay as they are
  select * into def from job_definitions where id = job.definition_id and removed_at is null for share skip locked;
  if not found or exists (select from pauses where scope in ('all', 'queue:' || def.queue, 'schedule:' || def.id)) then
    return 0;
  end if;
  room := 1000 - (select count(*) from unfinished_backfill_runs(job.id));
  insert into job_limits (key, max_running) values ('backfill:' || job.id, job.at_once) on conflict do nothing;
  -- Rows are updated by their places: a join by tick may read all ticks for each run, if the statistics are old.
  with item as materialized (
    select place, tick, nextval('job_runs_id_seq') as id
      from (select ctid as place, tick from backfill_ticks
             where definition_id = def.id and backfill_id = job.id and run_id is null
             order by tick limit greatest(room, 0)) as oldest
  ), run as (
    insert into job_runs (
      id, scheduled_for, trigger, backoff_strategy, backoff_base_s, backoff_cap_s, timeout_s, max_attempts, priority, queue, job_type,
      payload, definition_id, definition_generation, schedule, limit_key, shared_limit_key, has_dependents)
    overriding system value
    select id, tick, 'backfill', def.backoff_strategy, def.backoff_base_s, def.backoff_cap_s, def.timeout_s, def.max_attempts, 1, def.queue,
           def.job_type, def.payload, def.id, def.generation, job.schedule,
           case def.concurrency_policy when 'Allow' then 'backfill:' || job.id else 'schedule:' || def.id end, def.limit_key,
             def.has_dependents
      from item order by tick
  )
  update backfill_ticks as listed set run_id = item.id from item where listed.ctid = item.place;
  get diagnostics made = row_count;
  if made > 0 then
    update backfills set created = created + made where id = job.id;
    insert into definition_changes (definition_id) values (def.id);
  end if;
  return made;
end
$$;
