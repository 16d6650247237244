-- internal (called by enqueue_former_tick and finish_runs)
-- Creates this week's partition of the history if no maintenance has, in an application's transaction, which holds its locks until the end.

create or replace function wakeboard.require_partition()
returns void language plpgsql security definer
as $$
begin
  perform create_partitions(0)
    where to_regclass(to_char(statement_timestamp() at time zone 'UTC', '"wakeboard.job_run_history_"IYYY"w"IW')) is null;
end
$$;
