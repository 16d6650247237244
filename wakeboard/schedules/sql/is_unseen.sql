-- internal (called by edit_schedule and remove_schedules)
-- Whether no other transaction has seen the times of this schedule: this one has created it, or has edited when it ticks. Moments tell its
-- number from one that was counted before the database was restored. In a procedure, transactions begin after their statement.

create or replace function wakeboard.is_unseen(def wakeboard.job_definitions)
returns boolean language plpgsql security definer
as $$
begin
  return coalesce(def.created_by = pg_current_xact_id() and def.created_at >= least(transaction_timestamp(), statement_timestamp())
                  or def.former_timings #>> '{-1,transaction}' = pg_current_xact_id()::text
                  and (def.former_timings #>> '{-1,until}')::timestamptz >= transaction_timestamp(), false);
end
$$;
