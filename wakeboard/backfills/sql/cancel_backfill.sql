-- for: operator
-- Cancels a backfill: its queued and failed runs are cancelled, running ones are asked to stop, and no further tick becomes a run. What has
-- run stays, and so do dead runs. The ticks that did not run may be part of another backfill. Returns how many runs were cancelled and
-- asked to stop, and whether it was cancelled by this call: it may have ended before, or there is none. Then it writes an audit row for
-- itself and one for each run that it changes (see Audit). Raises 55P03 if another transaction has locked a run: nothing was done, try
-- again.
-- Example:
--   select * from wakeboard.cancel_backfill(1);

create or replace function wakeboard.cancel_backfill(
  backfill wakeboard.backfill_number, reason text default '',
  actor wakeboard.audit_actor default null, source wakeboard.acting_program default 'sql')
returns table (changed boolean, cancelled integer, requested integer) language plpgsql security definer
set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  job backfills;
  answers jsonb;
  gone bigint[];
begin
  perform require_read_committed('cancel_backfill');
  select * into job from backfills where id = backfill and finished_at is null for no key update;
  if not found then
    perform wait_for_standby();
    return query select false, 0, 0;
    return;
  end if;
  select jsonb_object_agg(answer, ids) into answers
    from (select answer, jsonb_agg(id) as ids
            from cancel(array(select unfinished_backfill_runs(job.id)), coalesce(nullif(cancel_backfill.reason, ''), 'Cancelled'),
                        coalesce(actor, session_user), cancel_backfill.source)
           group by 1) as answered;
  if answers ? 'refused: another transaction has locked the run; try again' then
    perform refuse_locked();
  end if;
  gone := array(select jsonb_array_elements_text(answers -> 'cancelled')::bigint);
  delete from backfill_ticks where run_id = any (gone) and backfill_id = job.id;              -- these ticks did not run
  update backfills set created = created - cardinality(gone) where id = job.id;
  perform end_backfill(job.id);
  insert into audit_log (actor, source, action, definition_id, schedule, scope, reason, detail)
  values (coalesce(actor, session_user), source, 'cancel_backfill', job.definition_id, job.schedule, 'backfill:' || job.id,
          coalesce(left(cancel_backfill.reason, 200), ''),
          jsonb_build_object('total', job.total, 'created', job.created, 'cancelled', cardinality(gone)));
  return query select true, cardinality(gone), coalesce(jsonb_array_length(answers -> 'requested'), 0);
exception when lock_not_available then
  perform refuse_locked();
end
$$;
