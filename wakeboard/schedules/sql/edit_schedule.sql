-- internal (called by schedule_written)
-- The row of an edited schedule of an application: the next generation of `former`, with the options of `def` and with the ticks after
-- `present`, the moment of the edit. The tick of `former` that is due becomes a run as `former` says, if it is within the misfire grace and
-- no pause holds it. The other due ticks, which there are after an outage or a pause, are those of the former times (former_timings), and
-- the scheduler makes runs of the new definition of them, as catch_up says. An edit that suspends the schedule drops them.
-- Of several edits of when in one transaction, the last one counts, from the moment of the first one: no other transaction has seen those
-- between. So one that this transaction has removed is edited, too; the removal has recorded the tick that was due then as skipped. If its
-- ticks could not be computed, any edit lets the scheduler try again: those that are due still are, unless the edit changes when.

create or replace function wakeboard.edit_schedule(
  former wakeboard.job_definitions, def wakeboard.job_definitions, present timestamptz)
returns wakeboard.job_definitions language plpgsql security definer
as $$
declare
  is_there constant boolean := former.removed_at is null
    or former.removed_by is not distinct from pg_current_xact_id()                      -- see is_unseen
       and former.removed_at >= least(transaction_timestamp(), statement_timestamp());
  has_ticks constant boolean := is_there and not former.suspended and former.schedule_error is null;
  is_same constant boolean := is_there
    and (former.schedule, former.time_zone, former.dst_gap, former.dst_overlap, former.starts_at, former.ends_at, former.suspended)
        is not distinct from (def.schedule, def.time_zone, def.dst_gap, def.dst_overlap, def.starts_at, def.ends_at, def.suspended);
  is_unseen constant boolean := is_unseen(former);
  has_other_keys constant boolean :=
    (former.concurrency_policy <> 'Allow', former.limit_key) is distinct from (def.concurrency_policy <> 'Allow', def.limit_key);
  created constant timestamptz := case       -- by this transaction
    when is_unseen and former.former_timings is null then coalesce(former.next_run_at, present) end;
  due_tick constant timestamptz := case when has_ticks and not is_unseen then due_tick(former, present) end;
  is_due constant boolean := due_tick is not null
    and (def.suspended
         or due_tick >= present - (select misfire_grace from installation where only_row)
            and not exists (select from pauses where scope in ('all', 'queue:' || former.queue, 'schedule:' || former.id)));
begin
  if has_other_keys then                     -- in the order of lock_runs; it waits until the caller's lock_timeout
    perform from job_runs where definition_id = def.id order by id for no key update;
  end if;
  if created is not null then                -- from then on it has the times of its last edit
    def.former_timings := jsonb_build_array(former_timing(former, created) || jsonb_build_object('schedule', null, 'since', created));
  end if;
  if is_due then
    former := enqueue_former_tick(former, due_tick, case when def.suspended then 'Suspended' end);
    if def.suspend_after_dead is not null then
      def.dead_counted_from := former.dead_counted_from;
      def.circuit_opened_at := former.circuit_opened_at;
      def.circuit_probe_at := former.circuit_probe_at;
      def.circuit_probe_id := former.circuit_probe_id;
      def.circuit_probes := former.circuit_probes;
    end if;
    def.last_tick_at := greatest(former.last_tick_at, due_tick);
    former.last_tick_at := def.last_tick_at;
    former.cron_fields := null;
    former.next_run_at := due_tick;          -- its ticks are those after it
  end if;
  if has_other_keys
     and not (case when def.concurrency_policy = 'Allow' then update_limit_keys(def.id, def.limit_key, null)
                   else update_limit_keys(def.id, 'schedule:' || def.id, def.limit_key) end) then
    perform refuse_locked();
  end if;
  if is_same and former.schedule_error is not null then
    def.cron_fields := null;
    def.next_run_at := coalesce(former.former_timings, add_former_timing(former, present)) #>> '{0,since}';
  elsif is_same and is_due then
    def.cron_fields := null;
    def.former_timings := null;
    def.next_run_at := former.next_run_at;
  elsif not is_same then
    def.cron_fields := null;
    if not is_unseen then
      if not has_ticks then
        former.former_timings := case when is_there and not former.suspended then former.former_timings end;
        former.next_run_at := null;
        former.suspended := true;            -- what was due then is dropped, except by times of before
      end if;
      -- Ticks are at whole seconds, so times of less than a second may have had none.
      if (former.former_timings #>> '{-1,until}')::timestamptz >= date_trunc('second', present) and former.schedule not like 'at %' then
        def.former_timings := jsonb_set(former.former_timings, '{-1}', former.former_timings -> -1 || jsonb_build_object(
          'transaction', pg_current_xact_id()::text, 'until', present));
        if former.former_timings #> '{0,since}' = former.former_timings #> '{-1,until}' then
          def.former_timings := jsonb_set(def.former_timings, '{0,since}', to_jsonb(present));
        end if;
      else
        def.former_timings := add_former_timing(former, present);
      end if;
    end if;
    def.next_run_at := def.former_timings #>> '{0,since}';
  end if;
  if def.suspended then
    def.next_run_at := null;
  end if;
  if former.removed_at is not null then
    def.circuit_opened_at := null;
    def.circuit_probe_at := null;
    def.circuit_probe_id := null;
    def.circuit_probes := null;
  end if;
  if def.suspend_after_dead is not null and (former.suspend_after_dead is null or former.removed_at is not null) then
    def.dead_counted_from := present;
  end if;
  def.generation := former.generation + 1;
  def.schedule_error := null;
  def.updated_at := present;
  def.last_synced_at := present;
  return def;
end
$$;
