-- internal (called by edit_schedule and remove_schedules)
-- Whether no other transaction has seen the times of this schedule: this one has created it, or has edited when it ticks.

create or replace function wakeboard.is_unseen(def wakeboard.job_definitions)
returns boolean language plpgsql security definer
as $$
begin
  return coalesce(def.created_by = pg_current_xact_id() and def.created_at >= transaction_timestamp()
                  or def.former_timings #>> '{-1,transaction}' = pg_current_xact_id()::text
                  and (def.former_timings #>> '{-1,until}')::timestamptz >= transaction_timestamp(), false);
end
$$;
