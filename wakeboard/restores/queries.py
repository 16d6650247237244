"""Read-only queries of the changes of the server after which commits are missing or may be, and of what they concern.

Needs SELECT on the tables, which the viewer's and the operator's role have. The fields of the rows are public: they are
the keys of `--json`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, LiteralString

from psycopg.rows import class_row

from wakeboard.restores.rules import ServerChange
from wakeboard.store.statements import read

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import psycopg

MOST_RUNS: Final = 1000  # that are listed


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedRun:
    """A run that may run twice.

    `had_started`: it was executing at the last commit that is kept. `has_started_again`: it has started since then.
    """

    id: int
    job_type: str
    schedule: str | None
    status: str
    scheduled_for: datetime
    had_started: bool
    has_started_again: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSource:
    """A source of schedules: k8s:…, file:… or app; how many it has, and when they were last synced."""

    source: str
    schedules: int
    last_synced_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Newest:
    """The newest traces that are kept from before a moment. None: there is none.

    `paused_at`: since when everything was paused then.
    """

    run_id: int | None
    run_enqueued_at: datetime | None
    audit_action: str | None
    audit_at: datetime | None
    paused_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """What a user must know after the database went back in time. `more`: there are more runs than those listed."""

    changes: Sequence[ServerChange]
    runs: Sequence[RepeatedRun]
    more: bool
    newest: Newest
    sources: Sequence[ScheduleSource]


_COLUMNS: LiteralString = (
    "id, noticed_at, kind, lost, from_system, from_timeline, to_system, to_timeline, kept_until, kept_id, seen_until,"
    " seen_id, seen_by, case when lost or kind = 'moved' then greatest(0, coalesce(seen_id - kept_id, 0)) else 0 end"
    " as ids_again"
)

_UNACKNOWLEDGED: LiteralString = f"""
select {_COLUMNS} from wakeboard.server_changes where (at_risk or lost) and acknowledged_at is null
union all
select {_COLUMNS} from wakeboard.server_change() where at_risk
 order by noticed_at, id
"""

# Whatever had not ended at the last commit that is kept, and was due before the change, may have run since then. Ticks
# in between become runs again.
_REPEATED: LiteralString = """
select run.id, run.job_type::text, run.schedule, run.status::text, run.scheduled_for,
       run.started_at <= %(since)s is true and (run.locked_by <> 0 or run.finished_at is not null)
         or exists (select from wakeboard.job_attempts as past
                     where past.run_id = run.id and past.started_at <= %(since)s and past.ended_at > %(since)s)
         as had_started,
       run.started_at > %(since)s is true as has_started_again
  from wakeboard.all_runs as run
 where (run.finished_at is null or run.finished_at > %(since)s) and (run.dead_at is null or run.dead_at > %(since)s)
   and (run.id <= %(last_id)s and (least(run.run_at, run.scheduled_for) <= %(until)s or run.locked_by <> 0)
        or run.trigger = 'tick' and run.id > %(last_id)s and run.scheduled_for <= %(until)s)
   and run.status <> 'skipped'
 order by has_started_again, had_started desc, run.id
 limit %(most)s
"""

_NEWEST: LiteralString = """
select run.id as run_id, run.created_at as run_enqueued_at, entry.action as audit_action, entry.at as audit_at,
       (select pause.paused_at from wakeboard.pauses as pause
         where pause.scope = 'all' and pause.paused_at <= %(since)s) as paused_at
  from (select) as one
  left join lateral (
    select id, created_at from wakeboard.all_runs where id <= %(last_id)s order by id desc limit 1) as run on true
  left join lateral (
    select action, at from wakeboard.audit_log where at <= %(since)s order by at desc limit 1) as entry on true
"""

_SOURCES: LiteralString = """
select source, count(*) as schedules, max(last_synced_at) as last_synced_at
  from wakeboard.job_definitions where removed_at is null group by source order by source
"""


async def read_unacknowledged(conn: psycopg.AsyncConnection[Any]) -> list[ServerChange]:
    """The changes that no user has acknowledged, the oldest first."""
    return await read(conn, class_row(ServerChange), _UNACKNOWLEDGED)


async def read_restore(conn: psycopg.AsyncConnection[Any]) -> Restore | None:
    """What the changes concern that no user has acknowledged; None: there are none. It reads all live runs."""
    changes = await read_unacknowledged(conn)
    if not changes:
        return None
    since, until = min(each.kept_until for each in changes), max(each.noticed_at for each in changes)
    values = {"since": since, "until": until, "most": MOST_RUNS + 1, "last_id": min(each.kept_id for each in changes)}
    runs = await read(conn, class_row(RepeatedRun), _REPEATED, values)
    return Restore(
        changes=changes,
        runs=runs[:MOST_RUNS],
        more=len(runs) > MOST_RUNS,
        newest=(await read(conn, class_row(Newest), _NEWEST, values))[0],
        sources=await read(conn, class_row(ScheduleSource), _SOURCES),
    )
