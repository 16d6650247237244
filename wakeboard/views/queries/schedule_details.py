"""One schedule with what is wrong, its runs and its next ticks, for the command line and the API.

The fields of the rows are public: they are the keys of `--json`. Needs SELECT on the tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from wakeboard.ticks.compiled_ticks import ticks_for
from wakeboard.views.queries.schedule_page import live_runs, past_runs, schedule_row
from wakeboard.views.queries.schedule_situation import read_schedule_situation
from wakeboard.views.rules.next_ticks import next_ticks
from wakeboard.views.rules.schedule_explanation import explain_schedule
from wakeboard.views.rules.schedule_rows import NextTicks, ScheduleDetails, Tick

if TYPE_CHECKING:
    from datetime import datetime

    import psycopg

    from wakeboard.views.rules.schedule_explanation import ScheduleSituation

TICKS_SHOWN: Final = 5
RUNS_SHOWN: Final = 10
_COLUMNS: Final = ("id", "source", "schedule", "time_zone", "job_type", "queue", "priority", "payload")


async def read_schedule_details(
    conn: psycopg.AsyncConnection[Any], definition_id: int, *, namespaces: frozenset[str] | None
) -> ScheduleDetails | None:
    """The schedule with this id; None: there is none in these namespaces."""
    found = await _found(conn, definition_id, namespaces)
    if found is None:
        return None
    row, situation = found
    runs = await live_runs(conn, definition_id, RUNS_SHOWN)
    runs += await past_runs(conn, definition_id, RUNS_SHOWN)
    return ScheduleDetails(
        name=f"{situation.namespace}/{situation.name}",
        state=situation.state,
        runs_after=[parent.name for parent in situation.parents],
        facts=explain_schedule(situation, with_counts=namespaces is None),
        runs=runs[:RUNS_SHOWN],
        ticks=_stored_ticks(row, situation.now, TICKS_SHOWN)[0],
        **{name: row[name] for name in _COLUMNS},
    )


async def read_next_ticks(
    conn: psycopg.AsyncConnection[Any], definition_id: int, count: int, *, namespaces: frozenset[str] | None
) -> NextTicks | None:
    """The next ticks of the schedule with this id; None: there is none in these namespaces."""
    found = await _found(conn, definition_id, namespaces)
    if found is None:
        return None
    row, situation = found
    ticks, skipped = _stored_ticks(row, situation.now, count)
    return NextTicks(
        schedule=f"{situation.namespace}/{situation.name}",
        cron=row["schedule"],
        time_zone=row["time_zone"],
        state=situation.state,
        schedule_error=situation.schedule_error,
        ticks=ticks,
        skipped=skipped,
    )


async def _found(
    conn: psycopg.AsyncConnection[Any], definition_id: int, namespaces: frozenset[str] | None
) -> tuple[dict[str, Any], ScheduleSituation] | None:
    row = await schedule_row(conn, definition_id, namespaces)
    situation = await read_schedule_situation(conn, definition_id) if row else None
    return (row, situation) if row and situation else None


def _stored_ticks(row: dict[str, Any], after: datetime, count: int) -> tuple[list[Tick], list[str]]:
    """The next ticks of a stored schedule; none if it has none of its own."""
    if row["cron_fields"] is None:
        return [], []
    return next_ticks(ticks_for(row["cron_fields"], row["time_zone"], row["dst_gap"], row["dst_overlap"]), after, count)
