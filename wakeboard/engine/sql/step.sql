-- for: worker
-- Records a named step of a run. Without `result` the step starts: returns whether an attempt has finished it, and its stored result. With
-- `result` (JSON null for nothing) it is finished, with `error` it has failed and may start again: `earlier_starts` keeps how a start ended
-- that another one replaces. Raises WB001 if the lease is lost, and 55P03 if another transaction has locked the run
-- or the step: at once if it has locked a row, after 100 ms if it has inserted the step and is still open. Try again soon.

create or replace function wakeboard.step(
  worker wakeboard.worker_number, run_id wakeboard.run_number, epoch wakeboard.lease_number, name wakeboard.step_name,
  result jsonb default null, error text default null)
returns table (done boolean, stored jsonb) language plpgsql security definer
set lock_timeout = '100ms'
as $$
begin
  if stored_result(result) <> result then
    raise exception using errcode = '22023', message = case
      when pg_column_size(result) > 1048576 then
        format('the result of a step takes %s bytes, more than 1 MiB (1048576); return ids, not blobs', pg_column_size(result))
      else 'the result of a step has more than 32 levels, or a number beyond what a double holds; return ids, or texts' end;
  end if;
  perform from job_runs as run
    where run.id = step.run_id and run.locked_by = step.worker and run.lease_epoch = step.epoch and run.lease_epoch >= lease_base()
      for key share nowait;
  if not found then
    raise exception using errcode = 'WB001', message = format('the lease of run %s is lost', step.run_id);
  end if;
  perform from job_steps as past where past.run_id = step.run_id and past.name = step.name
      for no key update nowait;     -- the caller waits, not the connection, which other runs use, too
  if step.error is not null then
    update job_steps as past
       set failed_at = statement_timestamp(), error = left(step.error, 2000)
     where past.run_id = step.run_id and past.name = step.name and past.lease_epoch = step.epoch and past.finished_at is null;
    return query select false, null::jsonb;
    return;
  end if;
  return query
  insert into job_steps as past (run_id, name, lease_epoch, finished_at, result)
  values (step.run_id, step.name, step.epoch, case when step.result is not null then statement_timestamp() end, step.result)
  on conflict on constraint a_step_is_named_once_per_run do update
     set lease_epoch = case when past.finished_at is null then excluded.lease_epoch else past.lease_epoch end,
         started_at  = case when past.finished_at is null and excluded.finished_at is null then excluded.started_at
           else past.started_at end,
         finished_at = coalesce(past.finished_at, excluded.finished_at),
         result      = case when past.finished_at is null then excluded.result else past.result end,
         progress = null, progress_message = null, failed_at = null, error = null,
         earlier_starts = case
           when past.finished_at is null and (past.failed_at is not null or past.lease_epoch <> excluded.lease_epoch)
           then case when jsonb_array_length(past.earlier_starts) < 100 then past.earlier_starts else past.earlier_starts - 0 end
             || jsonb_build_object('lease_epoch', past.lease_epoch, 'started_at', past.started_at, 'failed_at', past.failed_at,
                  'error', left(past.error, 300), 'progress', past.progress, 'progress_message', past.progress_message)
           else past.earlier_starts end,
         reused_epochs = case
           when past.finished_at is null or step.result is not null or step.epoch = any (past.lease_epoch || past.reused_epochs)
           then past.reused_epochs
           else (past.reused_epochs || step.epoch::bigint)[greatest(1, cardinality(past.reused_epochs) - 98):] end
  returning past.finished_at is not null, past.result;
end
$$;
