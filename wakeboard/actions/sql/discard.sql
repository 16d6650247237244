-- for: operator
-- Moves dead runs to history as dead. The answer for each id: 'discarded' or 'refused: …'. The first 200 characters of
-- `reason` are stored. Writes an audit row for each run that it changes (see Audit).
-- Example:
--   select * from wakeboard.discard('{1}', 'the customer is gone');

create or replace function wakeboard.discard(
  ids wakeboard.id_array, reason text default 'Discarded',
  actor wakeboard.audit_actor default null, source wakeboard.acting_program default 'sql',
  bulk_action_id bigint default null)
returns table (id bigint, answer text) language plpgsql security definer
set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  mine bigint[] := lock_runs(ids);
  discarded_ids bigint[];
begin
  perform require_read_committed('discard');
  perform wait_for_standby();
  perform audit_runs('discard', mine, '{dead}', 'discarded', nullif(reason, 'Discarded'), actor, source, bulk_action_id);
  return query                               -- in a snapshot from after the locks
  select wanted.id,
         case when run.id is not null and run.id <> all (mine) then 'refused: another transaction has locked the run; try again'
              when run.status = 'dead' then 'discarded'
              when run.id is not null then 'refused: the run is ' || run.status::text || ', not dead'
              else 'refused: the run is not dead: it has finished, or there is none' end
    from (select distinct unnest(ids)) as wanted (id)
    left join job_runs as run on run.id = wanted.id
   order by 1;

  select array_agg(run.id) into discarded_ids from job_runs as run where run.id = any (mine) and run.status = 'dead';
  perform finish_runs(discarded_ids, 'dead', left(reason, 200)) where discarded_ids is not null;
exception when lock_not_available then
  perform refuse_locked();
end
$$;
