"""The pages and actions of the board, one module for each part. A new page is added to ROUTES.

The first route that fits a path answers: the page of a schedule by its name, whose path fits every other path below
/schedules/, comes after these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wakeboard.board.pages import (
    alert_silence,
    alerts,
    audit,
    backfills,
    bulk,
    calendar,
    effects,
    events,
    limits,
    login,
    overview,
    pauses,
    performance,
    run,
    run_actions,
    run_comparison,
    run_log,
    run_now,
    runs,
    schedule,
    schedules,
)

if TYPE_CHECKING:
    from starlette.routing import Route

ROUTES: list[Route] = [
    overview.overview,
    runs.runs,
    runs.run_suggestions,
    run.run,
    run_comparison.compare,
    run_log.run_log,
    *run_actions.ROUTES,
    *bulk.ROUTES,
    *backfills.ROUTES,
    alerts.alerts,
    *alert_silence.ROUTES,
    audit.audit,
    *effects.ROUTES,
    *limits.ROUTES,
    *pauses.ROUTES,
    schedules.schedules,
    *run_now.ROUTES,
    schedule.schedule,
    schedule.schedule_by_name,
    calendar.calendar,
    performance.performance,
    run.raw_text,
    events.events,
    *login.ROUTES,
]
