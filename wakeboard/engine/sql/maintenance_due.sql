-- internal (called by fetch_runs)
-- The maintenance tasks that may have work, of those whose work can be seen in a few index entries: scheduler, dependencies, reaper,
-- circuits, expectations, pauses and backfills. One that is missing has none. One that is named may find nothing.

create or replace function wakeboard.maintenance_due()
returns text[] language plpgsql stable security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
set plan_cache_mode = force_generic_plan set lock_timeout = '1s'
as $$
begin
  return array_remove(array[
    case when exists (select from job_definitions
                       where removed_at is null and not suspended and schedule_error is null and next_run_at <= statement_timestamp())
         then 'scheduler' end,
    case when exists (select from schedule_ticks where waits_for in ('check', 'run')) or exists (select from ended_runs)
         then 'dependencies' end,
    case when exists (select from job_runs where start_before < statement_timestamp())
           or exists (select from workers where last_seen not between statement_timestamp() - make_interval(secs => lease_s)
                                                                  and statement_timestamp() + interval '10 seconds')
           or exists (select from installation       -- as in `begin_reap`
                       where reap_started_at > statement_timestamp() or reap_completed_at < reap_started_at
                          or reap_completed_at < statement_timestamp() - interval '1 minute'
                          or server_started_at is distinct from pg_postmaster_start_time()
                          or server_table is distinct from 'installation'::regclass::oid
                          or commits_wait <> commits_wait(commits_wait))
         then 'reaper' end,
    case when exists (select from job_definitions where suspend_after_dead is not null and removed_at is null) then 'circuits' end,
    case when exists (select from job_definitions where success_due_at <= statement_timestamp() and not suspended)
           or exists (select from job_definitions where success_missed_at is not null)
         then 'expectations' end,
    case when exists (select from pauses where until <= statement_timestamp()) then 'pauses' end,
    case when exists (select from backfills where finished_at is null) then 'backfills' end], null);
end
$$;
