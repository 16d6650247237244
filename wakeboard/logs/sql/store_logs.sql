-- for: worker
-- Stores batches of log lines of attempts, element i of each array is one batch (see the table job_run_logs). An attempt is named by the
-- uuid of its run and its lease epoch, neither of which ever comes twice. So the log of a run that is lost in a failover appears at no
-- other run, and the last lines of an attempt can be stored when its lease has ended. A batch that is sent again, because a reply was lost,
-- is stored twice: readers take one of each number. From `dropped_from` to `dropped_to` are the numbers of batches of that attempt to
-- delete, because its log is longer than its bound; 0: none.
-- Returns how many batches it stored. Raises 23514 if the partition of this day is missing: call create_partitions.

create or replace function wakeboard.store_logs(
  run_uuids uuid[], epochs wakeboard.epoch_array, attempts integer[], sequences integer[], first_lines bigint[], last_lines bigint[],
  levels smallint[], first_ats timestamptz[], lines bytea[], dropped_from integer[], dropped_to integer[])
returns integer language plpgsql security definer
set lock_timeout = '2s' set enable_seqscan = off set jit = off
as $$
declare
  stored integer;
begin
  if exists (select from unnest(dropped_to) as number where number > 0) then
    delete from job_run_logs as log
     using unnest(run_uuids, epochs, dropped_from, dropped_to) as gone (run_uuid, epoch, first, last)
     where log.run_uuid = gone.run_uuid and log.lease_epoch = gone.epoch and log.sequence between gone.first and gone.last;
  end if;
  insert into job_run_logs (run_uuid, lease_epoch, attempt, sequence, first_line, last_line, level, first_at, lines)
  select batch.*
    from unnest(run_uuids, epochs, attempts, sequences, first_lines, last_lines, levels, first_ats, lines)
         as batch (run_uuid, epoch, attempt, sequence, first_line, last_line, level, first_at, lines);
  get diagnostics stored = row_count;
  return stored;
exception
  when lock_not_available then
    perform refuse_locked();
  when not_null_violation then
    raise exception using errcode = '22023', message = 'write arrays of one length without null: an element for each batch';
end
$$;
