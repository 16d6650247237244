"""The page that compares a run with another one, such as the last success of its schedule."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from wakeboard.board.pages.errors import NotFound
from wakeboard.board.routing import BoardRequest, Page, page
from wakeboard.text.object_ids import parse_id
from wakeboard.views.queries.run_comparison import read_comparison, read_last_success
from wakeboard.views.queries.run_page import read_shown_run

if TYPE_CHECKING:
    from wakeboard.store.connection import AsyncConnection
    from wakeboard.views.rules.run_comparison import RunComparison
    from wakeboard.views.rules.run_rows import StoredRun


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRuns:
    """The model of the page. `comparison`: None if the schedule of the run has no other run that succeeded."""

    run: StoredRun
    other: int | None
    comparison: RunComparison | None

    @staticmethod
    def took(seconds: float) -> timedelta:
        """How long a step took."""
        return timedelta(seconds=seconds)


@page("/runs/{id:int}/compare")
async def compare(request: BoardRequest) -> Page:
    """Compares a run with the run `with`, or else with the last one of its schedule that succeeded."""
    run_id: int = request.parts["id"]
    namespaces, given = request.viewer.namespaces, request.query.get("with", "")
    named = parse_id(given)

    async def read(conn: AsyncConnection) -> ComparedRuns:
        run = await read_shown_run(conn, run_id, namespaces=namespaces)
        if run is None:
            raise NotFound(f"there is no run {run_id}, or it was deleted from the history")
        other = named or (None if given else await read_last_success(conn, run))
        if (given and named is None) or (other and not await read_shown_run(conn, other, namespaces=namespaces)):
            raise NotFound(f"there is no run {given[:40]}, or it was deleted from the history")
        found = await read_comparison(conn, run_id, other) if other else None
        return ComparedRuns(run=run, other=other, comparison=found)

    model = await request.read(("compare", run_id, given, namespaces), read)
    return Page("compare.html", model, f"Compare run {run_id}")
