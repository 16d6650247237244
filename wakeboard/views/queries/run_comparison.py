"""Reads two runs to compare them, and the run that a run of a schedule is compared with. Needs SELECT on the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, LiteralString

from psycopg.rows import scalar_row

from wakeboard.store.statements import read
from wakeboard.views.queries.index_order import prefer_index_order
from wakeboard.views.queries.run_details import ReadBounds, read_run_details
from wakeboard.views.rules.run_comparison import RunComparison, TimedStep, compared_steps, differences

if TYPE_CHECKING:
    from datetime import timedelta

    import psycopg

    from wakeboard.views.rules.run_detail_rows import RunDetails
    from wakeboard.views.rules.run_rows import StoredRun

BOUNDS: Final = ReadBounds(attempts=1, steps=1000, step_result=0)

# Of the newest 1,000 that ended before this run was created.
_LAST_SUCCESS: LiteralString = """
select id from (
  select id, status, finished_at from wakeboard.job_run_history
   where definition_id = %(definition)s and finished_at <= %(before)s and id <> %(id)s
   order by finished_at desc limit 1000) as past
 where status = 'succeeded'
 order by finished_at desc limit 1
"""


async def read_comparison(conn: psycopg.AsyncConnection[Any], one: int, other: int) -> RunComparison | None:
    """The comparison of two runs; None: one of them does not exist, or was deleted."""
    first, second = await read_run_details(conn, one, BOUNDS), await read_run_details(conn, other, BOUNDS)
    if first is None or second is None:
        return None
    before, after = sorted((first, second), key=lambda run: run.id)
    return RunComparison(
        before=before.id,
        after=after.id,
        before_status=before.status,
        after_status=after.status,
        before_s=_seconds(before.duration),
        after_s=_seconds(after.duration),
        steps=compared_steps(_timed(before), _timed(after)),
        payload=differences(before.payload, after.payload),
        result=differences(before.result, after.result),
    )


def _timed(run: RunDetails) -> list[TimedStep]:
    return [TimedStep(step.name, step.state, _seconds(step.duration)) for step in run.steps]


def _seconds(duration: timedelta | None) -> float | None:
    return None if duration is None else duration.total_seconds()


async def read_last_success(conn: psycopg.AsyncConnection[Any], run: StoredRun) -> int | None:
    """The run of the same schedule that succeeded last before this one ended, or until now; None: there is none."""
    if run.definition_id is None:
        return None
    await prefer_index_order(conn)
    values = {"definition": run.definition_id, "id": run.id, "before": run.finished_at or "infinity"}
    found = await read(conn, scalar_row, _LAST_SUCCESS, values)
    return found[0] if found else None
