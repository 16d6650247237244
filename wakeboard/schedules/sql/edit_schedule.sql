-- internal (called by schedule_written)
-- The row of an edited schedule of an application: the next generation of `former`, with the options of `def` and with the ticks after
-- `seen_to`. The edit is made at `present`. The tick of `former` that is due becomes a run as `former` says, if it is within the misfire
-- grace and no pause holds it. The other due ticks, which there are after an outage or a pause, are those of the former times, and the
-- scheduler makes runs of the new definition of them, as catch_up says (former_timings). An edit that suspends the schedule drops them.
-- Of several edits of when in one transaction, the last one counts, from the moment of the first one: no other transaction has seen those
-- between. Without a schedule between, former times without ticks remember that moment. So one that this transaction has removed is
-- edited, too; the removal has recorded the tick that was due then as skipped. Ticks are at whole seconds, so times that no whole second
-- saw leave nothing behind.

create or replace function wakeboard.edit_schedule(
  former wakeboard.job_definitions, def wakeboard.job_definitions, present timestamptz, seen_to timestamptz)
returns wakeboard.job_definitions language plpgsql security definer
as $$
declare
  is_there constant boolean := former.removed_at is null
    or former.removed_at >= transaction_timestamp() and is_of_this_transaction(former.id);
  had_ticks constant boolean := is_there and not former.suspended and former.schedule_error is null;
  seen_from constant timestamptz := case       -- of its last times
    when former.schedule is null and (former.former_timings #>> '{-1,until}')::timestamptz >= transaction_timestamp()
     and is_of_this_transaction(former.id) then (former.former_timings #>> '{-1,until}')::timestamptz
    when former.schedule is null then seen_to
    else coalesce((former.former_timings #>> '{-1,next_run_at}')::timestamptz,
                  case when former.cron_fields is null then former.next_run_at end) end;
  is_superseded constant boolean := had_ticks and seen_from is not null           -- its last times had no tick
    and (former.schedule is null or seen_from >= date_trunc('second', present)
         or seen_from >= transaction_timestamp() and seen_from <> date_trunc('second', seen_from) and is_of_this_transaction(former.id));
  due_tick constant timestamptz := case when had_ticks and not is_superseded then due_tick(former, present) end;
  is_due constant boolean := due_tick is not null
    and (def.suspended
         or due_tick >= present - (select misfire_grace from installation)
            and not exists (select from pauses where scope in ('all', 'queue:' || former.queue, 'schedule:' || former.id)));
  due_after constant timestamptz := case       -- ticks of the former times are left to the scheduler
    when had_ticks and former.next_run_at <= present then
      case when is_due then due_tick when former.cron_fields is null then former.next_run_at
           else greatest(former.last_tick_at, former.next_run_at - interval '1 microsecond') end end;
begin
  if is_due then
    perform enqueue_former_tick(former, due_tick, case when def.suspended then 'Suspended' end);
    def.last_tick_at := greatest(former.last_tick_at, due_tick);
  end if;
  if (former.concurrency_policy <> 'Allow', former.limit_key) is distinct from (def.concurrency_policy <> 'Allow', def.limit_key)
     and not (case when def.concurrency_policy = 'Allow' then update_limit_keys(def.id, def.limit_key, null)
                   else update_limit_keys(def.id, 'schedule:' || def.id, def.limit_key) end) then
    perform refuse_locked();
  end if;
  if not had_ticks
     or (former.schedule, former.time_zone, former.dst_gap, former.dst_overlap, former.starts_at, former.ends_at)
        is distinct from (def.schedule, def.time_zone, def.dst_gap, def.dst_overlap, def.starts_at, def.ends_at) then
    def.cron_fields := null;
    def.next_run_at := case when def.schedule is not null then seen_to end;
    def.former_timings := null;
    if is_superseded then
      def.next_run_at := case when def.schedule is not null then least(seen_to, seen_from) end;
      if former.former_timings is not null then
        def.former_timings := jsonb_set(former.former_timings, '{-1,next_run_at}', coalesce(to_jsonb(def.next_run_at), 'null'));
        def.next_run_at := former.next_run_at;
      end if;
    elsif due_after is not null then
      def.former_timings := coalesce(former.former_timings, '[]') || former_timing(former, present, def.next_run_at);
      def.next_run_at := due_after;
    end if;
    if def.schedule is null and former.schedule is not null and had_ticks and def.former_timings is null then
      def.next_run_at := case when is_superseded then seen_from else present end;
      def.former_timings := jsonb_build_array(former_timing(former, def.next_run_at, null));
    end if;
  elsif is_due then
    def.cron_fields := null;                 -- its ticks after this one
    def.next_run_at := due_tick;
  end if;
  if def.suspended then
    def.next_run_at := null;
    def.former_timings := null;
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
