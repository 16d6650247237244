-- internal (called by roll_up)
-- Whether the hour's row in `run_rollups` has as many runs and attempts as the history. A transaction that committed after its minute was
-- counted makes the difference: nothing in the history changes, so equal counts mean equal rows.

create or replace function wakeboard.rollups_match_history(hour timestamptz)
returns boolean language plpgsql stable security definer
set enable_seqscan = off set jit = off set plan_cache_mode = force_custom_plan
as $$
declare
  runs bigint[];
  attempts bigint[];
  counted bigint[];
begin
  select array[count(*) filter (where status = 'succeeded'), count(*) filter (where status = 'cancelled'),
               coalesce(sum(coalesce(skipped_count, 1)) filter (where status = 'skipped'), 0)::bigint,
               count(*) filter (where status = 'dead')]
    into runs from job_run_history where finished_at >= hour and finished_at < hour + interval '1 hour';
  select array[count(*) filter (where outcome = 'failed'), count(*) filter (where outcome = 'timed_out'),
               count(*) filter (where outcome = 'crashed'), count(*) filter (where died)]
    into attempts from job_attempts where ended_at >= hour and ended_at < hour + interval '1 hour';
  select array[succeeded, cancelled, skipped, discarded, failed, timed_out, crashed, died]
    into counted from run_rollups where grain = 'hour' and starts_at = hour and dimension = 'all' and name = '';
  return runs || attempts = coalesce(counted, array_fill(0::bigint, '{8}'));
end
$$;
