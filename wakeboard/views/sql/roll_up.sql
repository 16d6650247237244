-- for: worker, operator
-- Keeps `run_rollups`, in steps of some tenths of a second: counts the minutes that have ended, checks hours, adds up days, deletes what is
-- old. Records once a minute how many runs wait (`backlog_samples`). Does nothing if another call has begun less than `min_interval` ago
-- (unless it left work, or `always`) or is under way. Returns whether work is left: call it again soon. None of its locks blocks another
-- function. Raises 55P03 if another transaction has locked rows of `run_rollups`, after 100 ms: nothing is changed, and a later call does
-- the work.
--
-- A minute is counted once, ten seconds or more after it ended, and added to its hour. A transaction that commits later is found ten
-- minutes after the hour, or 20 hours after it: the hour is compared with the history, and counted again if they differ. A recount is
-- invisible until it is complete. Hours older than that are exact, and days are added up from them. `drop_partitions` waits for them.
-- Minutes are kept for 26 hours; hours for 100 days (of schedules and steps: 8 days); days for 400 days more than the history.
-- Example:
--   select wakeboard.roll_up();

create or replace function wakeboard.roll_up(min_interval interval default '1 minute', always boolean default false)
returns boolean language plpgsql security definer
set enable_seqscan = off set jit = off set plan_cache_mode = force_custom_plan set timezone = 'UTC' set lock_timeout = '100ms'
as $$
declare
  a_call constant interval := '200 milliseconds';
  late_commits constant interval := '10 seconds';
  checked_after constant interval := '1 hour 10 minutes';        -- from the beginning of the hour
  verified_after constant interval := '21 hours';
  minutes_kept constant interval := '26 hours';
  details_kept constant interval := '8 days';
  hours_kept constant interval := '100 days';
  days_kept constant interval := '400 days';                     -- beyond the history
  a_batch constant integer := 10000;                             -- rows deleted, and 1,000 names of a day
  present constant timestamptz := clock_timestamp();             -- of a statement that waited, statement_timestamp() is in the past
  state rollup_progress;
  hour timestamptz;
  since timestamptz;
  until timestamptz;
  began timestamptz;
  last record;
  gone tid[];
  more boolean;
begin
  perform require_read_committed('roll_up');
  select * into state from rollup_progress
   where always or is_behind
      or rolled_up_at not between present - coalesce(min_interval, '1 minute')
                              and present + interval '1 minute'  -- a call that began after this one, not a clock that was ahead
     for no key update skip locked;
  if not found then
    return false;
  end if;
  perform sample_backlog(present);

  if state.counted_until > present + interval '2 minutes' then   -- the clock was ahead: count today again
    state.counted_until := date_bin('1 day', present, 'epoch');
    state.checked_until := least(state.checked_until, state.counted_until);
    state.verified_until := least(state.verified_until, state.counted_until);
    state.days_until := least(state.days_until, state.counted_until);
    state.recount_from := null;
    state.day_name := null;
    delete from run_rollups where starts_at >= state.counted_until;
    delete from backlog_samples where sampled_at > present;
  end if;

  loop
    more := clock_timestamp() > present + a_call;
    exit when more;
    began := clock_timestamp();

    if state.recount_from is not null
       or state.verified_until <= least(present - verified_after, state.counted_until - interval '1 hour')
       or state.checked_until <= least(present - checked_after, state.counted_until - interval '1 hour') then
      -- Compare an hour with the history, or continue to count it again.
      hour := case when state.verified_until <= present - verified_after then state.verified_until else state.checked_until end;
      if state.recount_from is null and not rollups_match_history(hour) then
        delete from run_rollups where grain = 'recount';
        state.recount_from := hour;
      end if;
      if state.recount_from is not null then
        hour := date_bin('1 hour', state.recount_from, 'epoch');
        since := state.recount_from;
        until := least(hour + interval '1 hour', since + make_interval(mins => state.slice_minutes));
        perform count_into_rollups('recount', hour, since, until, since > present - minutes_kept);
        state.recount_from := until;
        continue when until < hour + interval '1 hour';
        delete from run_rollups where grain = 'hour' and starts_at = hour;
        update run_rollups set grain = 'hour' where grain = 'recount';
        state.recount_from := null;
      end if;
      if hour = state.verified_until and hour <= present - verified_after then
        state.verified_until := hour + interval '1 hour';
      end if;
      state.checked_until := greatest(state.checked_until, hour + interval '1 hour');

    elsif state.counted_until < date_bin('1 minute', present - late_commits, 'epoch') then
      since := state.counted_until;
      hour := date_bin('1 hour', since, 'epoch');
      until := least(hour + interval '1 hour', since + make_interval(mins => state.slice_minutes),
                     date_bin('1 minute', present - late_commits, 'epoch'));
      if exists (select from job_run_history where finished_at >= since and finished_at < until)
         or exists (select from job_attempts where ended_at >= since and ended_at < until) then
        perform count_into_rollups('hour', hour, since, until, since > present - minutes_kept);
      end if;
      state.counted_until := until;
      state.slice_minutes := case when clock_timestamp() - began > a_call then greatest(1, state.slice_minutes / 2)
                                  when clock_timestamp() - began < a_call / 4 then least(60, state.slice_minutes * 2)
                                  else state.slice_minutes end;

    elsif state.days_until + interval '1 day' <= state.verified_until then
      until := state.days_until + interval '1 day';
      select dimension, name into last
        from (select distinct dimension, name from run_rollups
               where grain = 'hour' and starts_at >= state.days_until and starts_at < until
                 and (state.day_name is null or (dimension, name) > (state.day_dimension, state.day_name))
               order by 1, 2 limit a_batch / 10) as names
       order by 1 desc, 2 desc limit 1;
      if found then
        perform count_into_rollups('day', state.days_until, state.days_until, until, false,
                                   state.day_dimension, state.day_name, last.dimension, last.name);
        state.day_dimension := last.dimension;
        state.day_name := last.name;
      else
        state.days_until := until;
        state.day_name := null;
      end if;

    elsif state.details_deleted_until < least(present - details_kept, state.days_until) then
      delete from run_rollups
       where grain = 'hour' and starts_at = state.details_deleted_until and dimension in ('schedule', 'step');
      state.details_deleted_until := state.details_deleted_until + interval '1 hour';

    elsif state.deleted_at not between present - interval '1 hour' and present then
      gone := array(
        (select ctid from run_rollups where grain = 'minute' and starts_at < present - minutes_kept order by starts_at limit a_batch)
        union all
        (select ctid from run_rollups
          where grain = 'hour' and starts_at < least(present - hours_kept, state.details_deleted_until) order by starts_at limit a_batch)
        union all
        (select ctid from run_rollups
          where grain = 'day' and starts_at < present - days_kept - (select min_history_retention from installation)
          order by starts_at limit a_batch));
      delete from run_rollups where ctid = any (gone);
      delete from backlog_samples where sampled_at < present - hours_kept;
      if gone = '{}' then
        state.deleted_at := present;
      end if;

    else
      exit;
    end if;
  end loop;

  update rollup_progress
     set rolled_up_at = present, is_behind = more, counted_until = state.counted_until, checked_until = state.checked_until,
         verified_until = state.verified_until, days_until = state.days_until, details_deleted_until = state.details_deleted_until,
         deleted_at = state.deleted_at, slice_minutes = case when more then state.slice_minutes else least(state.slice_minutes, 4) end,
         recount_from = state.recount_from, day_dimension = state.day_dimension, day_name = state.day_name,
         drop_waits_since = case when verified_until = state.verified_until then drop_waits_since end;
  return more;
end
$$;
