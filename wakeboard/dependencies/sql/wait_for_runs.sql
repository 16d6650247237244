-- internal (called by enqueue and enqueue_many)
-- Lets a run that the caller has just created wait until the runs `parents` have succeeded. `parents` null: it does nothing. Returns true.
-- `uuids`: theirs, null where the caller knows only the id, which suffices for roles that may read all runs. The live ones stay locked
-- until the caller's transaction ends, so that none of them can end before this run is visible.

create or replace function wakeboard.wait_for_runs(run_id bigint, parents bigint[], uuids uuid[])
returns boolean language plpgsql security definer
set enable_seqscan = off set jit = off set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  live bigint[];
  unusable record;
begin
  if parents is null then
    return true;
  end if;
  if array_ndims(parents) > 1 or cardinality(parents) > 1000 or array_position(parents, null) is not null then
    perform refuse_argument('after', parents::text, 'the ids of up to 1000 runs, such as {12,13}');
  end if;
  if cardinality(uuids) <> cardinality(parents) or array_ndims(uuids) > 1 then
    perform refuse_argument('after_uuids', uuids::text, 'for each run of after its uuid or null');
  end if;
  if array_position(coalesce(uuids, '{null}'), null) is not null and parents <> '{}' and not may_use_run_of(null) then
    raise exception using errcode = '22023', message = format(
      'after holds run %s without its uuid; write what enqueue returned, with its uuid',
      parents[coalesce(array_position(uuids, null), 1)]);
  end if;
  live := array(select id from job_runs where id = any (parents) and id <> wait_for_runs.run_id order by id for no key update);
  update job_runs set has_dependents = true where id = any (live) and has_dependents is not true;
  select wanted.id, known.status, case when wanted.uuid <> known.uuid then wanted.uuid end as lost_uuid into unusable
    from unnest(parents, uuids) as wanted (id, uuid)
    left join lateral (
      select run.uuid, 'live' as status from job_runs as run where run.id = wanted.id and run.id = any (live)
      union all
      select past.uuid, past.status::text from job_run_history as past where past.id = wanted.id
      limit 1) as known on true
   where known.status in ('live', 'succeeded') is not true or wanted.uuid <> known.uuid
   order by wanted.id limit 1;
  if found then
    raise exception using errcode = '22023', message = format('after holds run %s', unusable.id) || case
      when unusable.lost_uuid is not null then
        format(' with the uuid %s, which the database has lost, and another run has its id; enqueue it again', unusable.lost_uuid)
      when unusable.status is null then ', which does not exist; write ids that enqueue returned'
      else format(', which is %s and will not succeed; replay it and write the id of the new run',
                  case unusable.status when 'dead' then 'discarded' else unusable.status end) end;
  end if;
  insert into run_dependencies (run_id, place, parent_id, succeeded)
  select wait_for_runs.run_id, place, id, id <> all (live) from unnest(parents) with ordinality as wanted (id, place);
  update job_runs set run_at = '2999-12-31 00:00+00' where id = wait_for_runs.run_id and live <> '{}';
  return true;
exception when lock_not_available then
  perform refuse_locked();
end
$$;
