"""The list of runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wakeboard.board.routing import BoardRequest, Page, page
from wakeboard.store.queries.listings import Listings, RunFilter

if TYPE_CHECKING:
    from datetime import datetime

    from wakeboard.store.connection import AsyncConnection
    from wakeboard.store.queries.listings import RunRow

PAGE_SIZE: Final = 50


@dataclass(frozen=True, slots=True)
class RunList:
    """The model of the page."""

    now: datetime
    runs: list[RunRow]


@page("/runs")
async def runs(request: BoardRequest) -> Page:
    """Shows runs, newest first."""

    async def read(conn: AsyncConnection) -> RunList:
        listings = Listings(conn)
        return RunList(await listings.now(), await listings.runs(RunFilter(), PAGE_SIZE))

    return Page("runs.html", await request.read("runs", read), "Runs")
