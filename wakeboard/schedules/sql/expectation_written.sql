-- internal (trigger of job_definitions)
-- Before an INSERT or UPDATE of a schedule that expects successes, or has done so: when update_expectations looks at it next. Ticks until
-- now do not count if the expectation is new. Its name is behind that of the trigger that decides next_run_at.

create or replace function wakeboard.expectation_written()
returns trigger language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp
as $$
declare
  present constant timestamptz := statement_timestamp();
begin
  if new.expect_success_within_s is null then
    new.success_expected_from := null;
    new.success_due_at := null;
    new.success_missed_at := null;
  elsif tg_op = 'INSERT' then
    new.success_expected_from := present;
    new.success_due_at := greatest(new.next_run_at, present) + make_interval(secs => new.expect_success_within_s);
  else
    if old.expect_success_within_s is null or old.removed_at is not null then
      new.success_expected_from := present;
      new.success_missed_at := null;
    end if;
    new.success_due_at := present;
  end if;
  return new;
end
$$;
create or replace trigger job_definitions_that_expect before insert or update of
    expect_success_within_s, alert_after_missed, schedule, time_zone, dst_gap, dst_overlap, starts_at, ends_at, suspended
  on wakeboard.job_definitions
  for each row when (num_nonnulls(new.expect_success_within_s, new.success_due_at, new.success_missed_at) > 0)
  execute function wakeboard.expectation_written();
