-- for: operator
-- Takes running runs from their workers at once: revokes their leases and queues the runs again, due now. Use it for a worker that hangs
-- and still sends heartbeats. The answer for each id: 'queued', 'cancelled' (a cancellation was requested), or 'refused: …'. The attempt is
-- given back, and neither a crash nor a release is counted. Completions and effects of the old worker are refused from now on, but its
-- handler runs until its next heartbeat reports the lost lease, or for as long as it hangs: two handlers may execute the run meanwhile, and
-- the old one has no slot of a limit. Writes an audit row for each run that it changes (see Audit).
-- Example:
--   select * from wakeboard.revoke('{1}', 'the worker hangs in a system call');

create or replace function wakeboard.revoke(
  ids wakeboard.id_array, reason text default '', actor wakeboard.audit_actor default null, source wakeboard.acting_program default 'sql')
returns table (id bigint, answer text) language plpgsql security definer
set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  busy constant bigint[] := lock_backfills(ids, wait => true);
  mine bigint[] := lock_runs(ids);
  running bigint[];
  cancelled bigint[];
  size integer;
begin
  perform require_read_committed('revoke');
  running := array(select run.id from job_runs as run            -- an open `once` keeps its lease
                    where run.id = any (mine) and run.status = 'running' and (run.cancel_requested_at is null or run.id <> all (busy))
                    order by run.id for update skip locked);
  cancelled := array(select run.id from job_runs as run where run.id = any (running) and run.cancel_requested_at is not null);
  size := cardinality(running);
  perform audit_runs('revoke', array(select unnest(running) except select unnest(cancelled)), '{running}', 'queued',
                     reason, actor, source, null);
  perform audit_runs('revoke', cancelled, '{running}', 'cancelled', reason, actor, source, null);
  perform revoke_leases(running, array_fill('given_back'::text, array[size]), array_fill(false, array[size]),
                        array_fill('it was taken from its worker by ' || coalesce(actor, session_user), array[size]));
  return query                               -- in a snapshot from after the locks
  select wanted.id,
         case when wanted.id = any (cancelled) then 'cancelled'
              when wanted.id = any (running) then 'queued'
              when run.id is not null and (run.status = 'running' or run.id <> all (mine))
                then 'refused: another transaction has locked the run; try again'
              when run.status is not null then 'refused: no worker has the run; it is ' || run.status::text
              else 'refused: the run has finished, or there is none' end
    from (select distinct unnest(ids)) as wanted (id)
    left join job_runs as run on run.id = wanted.id
   order by 1;
exception when lock_not_available then
  perform refuse_locked();
end
$$;
