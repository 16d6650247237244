"""Reads why a schedule creates no runs now: the model of `views/rules/schedule_explanation.py`.

Each read is bounded and walks an index, however many runs there are. Needs SELECT on the tables.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final, LiteralString

from psycopg.rows import dict_row

from wakeboard.dependencies.queries import PAUSE_OF_SCHEDULE, STATE, read_parents, read_unmatched_ticks
from wakeboard.store.statements import read
from wakeboard.text.facts import IDS_SHOWN
from wakeboard.views.queries.job_types import meant_job_types
from wakeboard.views.queries.listings import LAST_WORKER, SERVED
from wakeboard.views.queries.run_situation import read_pauses
from wakeboard.views.rules.schedule_explanation import ScheduleSituation, SkippedTicks

if TYPE_CHECKING:
    import psycopg

_MOST_RUNS: Final = 10_000  # live runs of the schedule that are read
_RECENT: Final = 20  # finished runs of the schedule that are read
_MOST_SKIPPED: Final = 3

_SCHEDULE: LiteralString = f"""
select clock_timestamp() as now, def.id, def.source, def.namespace, def.name, def.job_type::text, def.queue::text,
       def.schedule as cron, def.concurrency_policy, def.suspended,
       def.source <> 'app' and def.suspended and def.spec_hash = '' as object_gone,
       {STATE} as state,
       def.suspend_after_dead, def.circuit_opened_at, def.circuit_probe_at, def.circuit_probe_id,
       def.expect_success_within_s, def.alert_after_missed, def.success_missed_at,
       def.removed_at, coalesce(def.source = 'app' and def.removed_at > def.updated_at, false) as removed_itself,
       def.schedule_error, def.next_run_at, def.cron_fields is null as unread, removal.count as removal_count,
       removal.requested_at as removal_at,
       {SERVED.replace("{of}", "def")}, {LAST_WORKER},
       exists (select from wakeboard.leadership where expires_at > statement_timestamp()) as operator_leads,
       (select nullif(reap_started_at, 'epoch') from wakeboard.installation) as last_maintenance
  from wakeboard.job_definitions as def {PAUSE_OF_SCHEDULE}
  left join wakeboard.pending_removals as removal on removal.source = def.source and removal.confirmed_at is null
 where def.id = %(id)s
"""
LIVE_RUNS: LiteralString = """
select coalesce((array_agg(id order by id) filter (where dead_at is null))[:%(shown)s], '{}') as unfinished,
       count(*) filter (where dead_at is null) as unfinished_count,
       coalesce((array_agg(id order by id) filter (where dead_at is not null))[:%(shown)s], '{}') as dead,
       count(*) filter (where dead_at is not null) as dead_count
  from (select id, dead_at from wakeboard.job_runs where definition_id = %(id)s limit %(most)s) as run
"""
WAITING_TICKS: LiteralString = """
select count(*) as waiting_ticks, min(scheduled_for) as oldest_waiting_tick
  from (select scheduled_for from wakeboard.schedule_ticks
         where waits_for = 'ticks' and definition_id = %(id)s limit %(most)s) as tick
"""
PAST_RUNS: LiteralString = """
select id, case status when 'dead' then 'discarded' else status::text end as status, finished_at, scheduled_for,
       skipped_until as until, coalesce(skipped_count, 1) as count, reason
  from wakeboard.job_run_history
 where definition_id = %(id)s order by finished_at desc limit %(recent)s
"""


async def read_schedule_situation(conn: psycopg.AsyncConnection[Any], definition_id: int) -> ScheduleSituation | None:
    """The schedule with this id, a removed one too; None: there is none."""
    found = await read(conn, dict_row, _SCHEDULE, {"id": definition_id})
    if not found:
        return None
    row = found[0]
    key = row["queue"], row["job_type"]
    meant = {} if row["type_served"] else await meant_job_types(conn, [key])
    live = {"id": definition_id, "shown": IDS_SHOWN, "most": _MOST_RUNS}
    past = await read(conn, dict_row, PAST_RUNS, {"id": definition_id, "recent": _RECENT})
    last = next((run for run in past if run["status"] != "skipped"), dict[str, Any]())
    skipped = [run for run in past if run["status"] == "skipped"][:_MOST_SKIPPED]
    return ScheduleSituation(
        **row,
        type_meant=meant.get(key),
        **(await read(conn, dict_row, LIVE_RUNS, live))[0],
        **(await read(conn, dict_row, WAITING_TICKS, live))[0],
        last_id=last.get("id"),
        last_status=last.get("status"),
        last_finished_at=last.get("finished_at"),
        skipped=[SkippedTicks(**{each.name: run[each.name] for each in fields(SkippedTicks)}) for run in skipped],
        pauses=await read_pauses(conn, row["queue"], definition_id),
        parents=await read_parents(conn, [definition_id]),
        unmatched=await read_unmatched_ticks(conn, definition_id),
    )
