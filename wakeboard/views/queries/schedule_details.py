"""One schedule with what is wrong, its runs and its next ticks, for the command line and the API.

The fields of the rows are public: they are the keys of `--json`. Needs SELECT on the tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wakeboard.ticks.compiled_ticks import ticks_for
from wakeboard.ticks.upcoming_ticks import upcoming_ticks
from wakeboard.views.queries.schedule_page import live_runs, past_runs, schedule_row
from wakeboard.views.queries.schedule_situation import read_schedule_situation
from wakeboard.views.rules.schedule_explanation import explain_schedule

if TYPE_CHECKING:
    from datetime import datetime

    import psycopg

    from wakeboard.text.facts import Fact
    from wakeboard.ticks.ticks import Ticks
    from wakeboard.views.rules.run_rows import RunRow
    from wakeboard.views.rules.schedule_explanation import ScheduleSituation

TICKS_SHOWN: Final = 5
RUNS_SHOWN: Final = 10
_COLUMNS: Final = ("id", "source", "schedule", "time_zone", "job_type", "queue", "priority", "payload")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """One tick. `local`: the time in the time zone of the schedule. `note`: what a clock change does to it."""

    at: datetime
    local: str
    note: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NextTicks:
    """The next ticks in order: `at` in UTC, `local` in the time zone, `note` if a clock change affects the tick.

    `skipped`: a sentence for each local time in this period that does not exist because of a clock change.
    """

    schedule: str | None
    cron: str | None
    time_zone: str
    state: str
    ticks: list[Tick]
    skipped: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleDetails:
    """A schedule. `facts`: as `explain` prints them. `runs`: first unfinished ones, then those that ended last."""

    id: int
    name: str
    source: str
    state: str
    schedule: str | None
    time_zone: str
    runs_after: list[str]
    job_type: str
    queue: str
    priority: int
    payload: Any
    facts: list[Fact]
    runs: list[RunRow]
    ticks: list[Tick]


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
        ticks=ticks,
        skipped=skipped,
    )


def next_ticks(tick_schedule: Ticks, after: datetime, count: int) -> tuple[list[Tick], list[str]]:
    """The next `count` ticks after `after`, and the local times that are skipped before the last of them."""
    found = upcoming_ticks(tick_schedule, after, count)
    ticks = [Tick(at=tick.at, local=_iso(tick.local), note=tick.note) for tick in found.ticks]
    return ticks, list(found.skipped)


async def _found(
    conn: psycopg.AsyncConnection[Any], definition_id: int, namespaces: frozenset[str] | None
) -> tuple[dict[str, Any], ScheduleSituation] | None:
    row = await schedule_row(conn, definition_id, namespaces)
    situation = await read_schedule_situation(conn, definition_id) if row else None
    return (row, situation) if row and situation else None


def _stored_ticks(row: dict[str, Any], after: datetime, count: int) -> tuple[list[Tick], list[str]]:
    """The next ticks of a stored schedule; none if it has no cron expression."""
    if row["cron_fields"] is None:
        return [], []
    return next_ticks(ticks_for(row["cron_fields"], row["time_zone"], row["dst_gap"], row["dst_overlap"]), after, count)


def _iso(local: datetime) -> str:
    return local.isoformat(timespec="seconds" if local.second else "minutes")
