-- for: operator
-- Declares a backfill: `ticks` of a schedule become runs with the trigger 'backfill' and the tick as scheduled_for, each once, however many
-- callers declare the same ticks. `plan_backfill` says which of them run; with `again`, ticks that have run do so once more. The first
-- 1,000 runs are created in this transaction, and `continue_backfills` creates the others, oldest tick first. The runs have priority 1 and
-- no starting deadline, and at most `at_once` of them run at once. If the concurrencyPolicy of the schedule is not Allow, it is one, which
-- does not run beside another run of the schedule. No run of the schedule is replaced or forbidden because of them. The ticks are at least
-- `range_begin` and before `range_end`, which are stored to show them to users; compute them by the schedule's rules. `range_end` is at
-- most a minute after now, because clocks differ. The schedule itself runs the ticks that are not due yet. Returns the id of the backfill
-- and the number of its runs, or null and 0 if no tick is left to run; and how many ticks `plan_backfill` found in each state, such as
-- {"new": 28, "ran": 3}. Writes an audit row for itself, and none for each run (see Audit). Raises 22023 for a schedule that is removed or
-- has no ticks of its own.
-- Example:
--   select made.* from wakeboard.job_definitions as def, wakeboard.create_backfill(
--       def.id, '{2026-01-01 02:00Z, 2026-01-02 02:00Z}', '2026-01-01 00:00Z', '2026-01-03 00:00Z') as made
--    where def.name = 'close-day';

create or replace function wakeboard.create_backfill(
  definition wakeboard.definition_number, ticks wakeboard.backfill_tick_array, range_begin timestamptz, range_end timestamptz,
  at_once wakeboard.backfill_limit default 1, again wakeboard.switch default false, reason text default '',
  actor wakeboard.audit_actor default null,
  source wakeboard.acting_program default 'sql')
returns table (id bigint, total integer, found jsonb) language plpgsql security definer
set jit = off set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  def job_definitions;
  planned jsonb;
  chosen timestamptz[];
  made backfills;
begin
  perform require_read_committed('create_backfill');
  if (range_begin >= 'epoch' and range_begin < range_end and range_end <= statement_timestamp() + interval '1 minute') is not true then
    raise exception using errcode = '22023', message =
      'a backfill has a range from 1970 to now; write range_begin before range_end';
  elsif exists (select from unnest(ticks) as tick where (tick >= range_begin and tick < range_end) is not true) then
    raise exception using errcode = '22023',
      message = 'a tick is outside the range; write ticks from range_begin on that are before range_end';
  end if;
  -- Other declarations of the schedule, its due ticks and its edits wait; what they have committed is visible to the plan.
  select * into def from job_definitions where job_definitions.id = definition for update;
  if not found or def.removed_at is not null then
    raise exception using errcode = '22023',
      message = 'there is no such schedule, or it was removed; write the id of a schedule that exists';
  elsif def.schedule is null then
    raise exception using errcode = '22023', message = 
      'the schedule has no ticks of its own; backfill the schedules that it runs after, or use run_now';
  end if;
  select array_agg(tick) filter (where is_chosen), jsonb_object_agg(found, state_count) filter (where place = 1)
    into chosen, planned
    from (select tick, found, count(*) over same as state_count, row_number() over same as place,
                 found in ('new', 'skipped') or again and found in ('dead', 'ran', 'discarded') as is_chosen
            from plan_backfill(def.id, ticks)
          window same as (partition by found)) as tick;
  if cardinality(chosen) > 100000 then
    raise exception using errcode = '22023', message = format(
      'a backfill has at most 100,000 runs and these are %s; narrow the range', to_char(cardinality(chosen), 'FM999,999,999'));
  elsif chosen is null then
    return query select null::bigint, 0, coalesce(planned, '{}');
    return;
  end if;
  perform lease_base();                -- another server is recorded before it gives a number (void_leases)
  insert into backfills as new (definition_id, schedule, range_begin, range_end, again, at_once, total, reason, actor, source)
  values (def.id, def.namespace || '/' || def.name, create_backfill.range_begin, create_backfill.range_end, create_backfill.again,
          create_backfill.at_once, cardinality(chosen),
          coalesce(left(create_backfill.reason, 200), ''), coalesce(actor, session_user), create_backfill.source)
  returning * into made;
  insert into backfill_ticks (backfill_id, tick, definition_id) select made.id, tick, def.id from unnest(chosen) as tick order by tick;
  insert into audit_log (actor, source, action, definition_id, schedule, scope, reason, detail)
  values (coalesce(actor, session_user), source, 'create_backfill', def.id, made.schedule, 'backfill:' || made.id, made.reason,
          jsonb_build_object('total', made.total, 'again', made.again, 'at_once', made.at_once, 'found', planned,
                             'range_begin', made.range_begin, 'range_end', made.range_end));
  perform create_backfill_runs(made.id);
  return query select made.id, made.total, planned;
exception when lock_not_available then
  perform refuse_locked();
end
$$;
