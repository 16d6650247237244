"""The pages and actions of the board, one module for each part. A new page is added to ROUTES."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wakeboard.board.pages import (
    audit,
    bulk,
    calendar,
    events,
    limits,
    login,
    overview,
    performance,
    run,
    run_actions,
    runs,
    schedule,
    schedule_actions,
    schedules,
)

if TYPE_CHECKING:
    from starlette.routing import Route

ROUTES: list[Route] = [
    overview.overview,
    runs.runs,
    runs.run_suggestions,
    run.run,
    *run_actions.ROUTES,
    *bulk.ROUTES,
    audit.audit,
    *limits.ROUTES,
    schedules.schedules,
    *schedule_actions.ROUTES,
    schedule.schedule,
    schedule.schedule_by_name,
    calendar.calendar,
    performance.performance,
    run.raw_text,
    events.events,
    *login.ROUTES,
]
