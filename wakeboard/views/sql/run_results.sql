-- for: worker
-- Returns the results of the runs that a leased run has waited for, one array element for each entry of `after` (of the schedule, or of
-- `enqueue`), in its order: null without a result, and for an entry with `ticks: All` the results of all its ticks, oldest first.
-- The result of a run that is older than the history is null. An empty array: it has waited for none. Raises WB001 if the lease is lost,
-- and 22023 if the results have more than 256 MB together.

create or replace function wakeboard.run_results(
  worker wakeboard.worker_number, run_id wakeboard.run_number, epoch wakeboard.lease_number)
returns jsonb language plpgsql security definer
set enable_seqscan = off set jit = off set lock_timeout = '2s'
as $$
begin
  perform leased_limit_key(worker, run_id, epoch);
  return coalesce((
    select jsonb_agg(case when is_list then results else results -> 0 end order by place)
      from (select edge.place, coalesce(bool_or(entry.ticks = 'All'), false) as is_list,
                   jsonb_agg(coalesce(past.result, 'null') order by past.scheduled_for nulls first, edge.parent_id) as results
              from run_dependencies as edge
              left join job_runs as run on run.id = edge.run_id
              left join schedule_dependencies as entry on entry.definition_id = run.definition_id and entry.place = edge.place
              left join lateral (select result, scheduled_for from job_run_history where id = edge.parent_id limit 1) as past on true
             where edge.run_id = run_results.run_id
             group by edge.place) as by_entry), '[]');
exception
  when lock_not_available then
    perform refuse_locked();
  when program_limit_exceeded then
    raise exception using errcode = '22023', message = format(
      'the results that run %s waited for have more than 256 MB together; return ids, not data', run_results.run_id);
end
$$;
