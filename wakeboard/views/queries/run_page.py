"""What the page of a run shows besides its details: its schedule, the runs around it, and what happens next.

The numbers of attempts, steps, effects and neighbours are bounded, and so is the length of a step's result. Needs
SELECT on the tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, LiteralString

from psycopg.rows import class_row, scalar_row

from wakeboard.logs.queries import log_parts
from wakeboard.store.statements import read
from wakeboard.views.queries.index_order import prefer_index_order
from wakeboard.views.queries.listings import Listings
from wakeboard.views.queries.run_details import ReadBounds, read_run_details, read_stored_run
from wakeboard.views.queries.run_situation import situation_of

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    import psycopg

    from wakeboard.logs.rules import LogPart
    from wakeboard.views.rules.run_detail_rows import RunDetails
    from wakeboard.views.rules.run_explanation import RunSituation
    from wakeboard.views.rules.run_rows import StoredRun

BOUNDS: Final = ReadBounds(attempts=100, steps=200, step_result=4000)
_NEIGHBOURS: Final = 6
_SLICES: Final = 100
_SHORTEST_SLICE_S: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """Another run of the same schedule."""

    id: int
    status: str
    trigger: str
    scheduled_for: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleOfRun:
    """The schedule of a run. `generation`: the one in force now."""

    id: int
    namespace: str
    name: str
    generation: int
    suspended: bool
    removed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHistory:
    """The run of a page and what surrounds it.

    `situation`: what explains why it has not ended; None: it has ended. `log`: when it logged, in about 100 slices.
    """

    now: datetime
    run: RunDetails
    schedule: ScheduleOfRun | None
    earlier: list[Neighbour]
    later: list[Neighbour]
    situation: RunSituation | None
    log: list[LogPart]


_SCHEDULE: LiteralString = """
select id, namespace, name, generation, suspended, removed_at is not null as removed
  from wakeboard.job_definitions
 where id = %(definition)s
"""
_STEP_RESULT: LiteralString = "select result::text from wakeboard.job_steps where run_id = %(id)s and name = %(name)s"
# Of finished runs those that ended before this one; of live ones, of a thousand at most, those with a smaller id.
_NEIGHBOURS_OF: LiteralString = """
(select id, case status when 'dead' then 'discarded' else status::text end as status, trigger::text, scheduled_for,
        finished_at as ended_at
   from wakeboard.job_run_history
  where definition_id = %(definition)s and finished_at {ended} %(ended)s and id <> %(id)s
  order by finished_at {order} limit %(count)s)
union all
(select id, status::text, trigger::text, scheduled_for, dead_at
   from (select * from wakeboard.job_runs where definition_id = %(definition)s limit 1000) as live
  where id {beyond} %(id)s
  order by id {order} limit %(count)s)
 order by scheduled_for {order}, id {order}
 limit %(count)s
"""
_EARLIER: LiteralString = _NEIGHBOURS_OF.format(ended="<=", beyond="<", order="desc")
_LATER: LiteralString = _NEIGHBOURS_OF.format(ended=">", beyond=">", order="asc")


async def read_shown_run(
    conn: psycopg.AsyncConnection[Any], run_id: int, *, namespaces: Collection[str] | None
) -> StoredRun | None:
    """The run with this id, live or in history; None: there is none, or it belongs to none of these namespaces."""
    run = await read_stored_run(conn, run_id)
    if run is None or (namespaces is not None and await _namespace(conn, run) not in namespaces):
        return None
    return run


async def read_run_history(
    conn: psycopg.AsyncConnection[Any], run_id: int, *, namespaces: Collection[str] | None
) -> RunHistory | None:
    """All about the run with this id; None: there is none, or it belongs to none of these namespaces."""
    run = await read_run_details(conn, run_id, BOUNDS)
    if run is None:
        return None
    schedule = await _schedule(conn, run)
    if namespaces is not None and (schedule is None or schedule.namespace not in namespaces):
        return None
    now = await Listings(conn).now()
    earlier, later = await _neighbours(conn, run) if schedule else ([], [])
    lasted = (run.finished_at or run.dead_at or now) - run.created_at
    return RunHistory(
        now=now,
        run=run,
        schedule=schedule,
        earlier=earlier,
        later=later,
        situation=await situation_of(conn, run, now) if run.finished_at is None else None,
        log=await log_parts(conn, run.uuid, max(_SHORTEST_SLICE_S, lasted.total_seconds() / _SLICES)),
    )


async def read_step_result(conn: psycopg.AsyncConnection[Any], run_id: int, name: str) -> str | None:
    """The JSON text of a step's result; None: there is no such step, or it has none."""
    found = await read(conn, scalar_row, _STEP_RESULT, {"id": run_id, "name": name})
    return found[0] if found else None


async def _schedule(conn: psycopg.AsyncConnection[Any], run: StoredRun) -> ScheduleOfRun | None:
    found = await read(conn, class_row(ScheduleOfRun), _SCHEDULE, {"definition": run.definition_id})
    return found[0] if found else None


async def _neighbours(conn: psycopg.AsyncConnection[Any], run: StoredRun) -> tuple[list[Neighbour], list[Neighbour]]:
    """The runs whose ticks are before and after that of `run`, oldest first.

    The index of the history orders runs by their end, which follows the order of the ticks only roughly: a run may be
    dead for days.
    """
    around = {"definition": run.definition_id, "id": run.id, "ended": run.scheduled_for, "count": _NEIGHBOURS}
    await prefer_index_order(conn)
    found = [
        *await read(conn, class_row(Neighbour), _EARLIER, around),
        *await read(conn, class_row(Neighbour), _LATER, around),
    ]
    found.sort(key=_tick)
    earlier = [other for other in found if _tick(other) < _tick(run)]
    return earlier[-_NEIGHBOURS:], [other for other in found if _tick(other) > _tick(run)][:_NEIGHBOURS]


def _tick(run: StoredRun | Neighbour) -> tuple[datetime, int]:
    return run.scheduled_for, run.id


async def _namespace(conn: psycopg.AsyncConnection[Any], run: StoredRun) -> str | None:
    schedule = await _schedule(conn, run)
    return schedule.namespace if schedule else None
