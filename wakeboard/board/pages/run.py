"""The page of one run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wakeboard.board.pages.errors import NotFound
from wakeboard.board.routing import BoardRequest, Page, page
from wakeboard.store.queries.action_targets import namespace_of
from wakeboard.store.queries.listings import Listings
from wakeboard.store.queries.run_details import read_run_details

if TYPE_CHECKING:
    from datetime import datetime

    from wakeboard.store.connection import AsyncConnection
    from wakeboard.store.queries.run_details import RunDetails


@dataclass(frozen=True, slots=True)
class RunModel:
    """The model of the page."""

    now: datetime
    run: RunDetails


@page("/runs/{id:int}")
async def run(request: BoardRequest) -> Page:
    """Shows a run."""
    run_id: int = request.parts["id"]

    async def read(conn: AsyncConnection) -> RunModel:
        details = await read_run_details(conn, run_id)
        if details is None:
            raise NotFound(f"there is no run {run_id}, or it was deleted from the history")
        return RunModel(await Listings(conn).now(), details)

    model = await request.read(("run", run_id), read)
    may = await request.permissions(namespace_of(model.run.schedule))
    return Page("run.html", model, f"Run {run_id}", may=may)
