"""The first page: whether everything is all right, and what happens now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wakeboard.board.routing import BoardRequest, Page, page
from wakeboard.store.queries.listings import LIVE, Listings, RunFilter

if TYPE_CHECKING:
    from datetime import datetime

    from wakeboard.store.connection import AsyncConnection
    from wakeboard.store.queries.listings import PauseRow, RunRow


@dataclass(frozen=True, slots=True)
class Overview:
    """The model of the page."""

    now: datetime
    runs: list[RunRow]
    pauses: list[PauseRow]


async def read_overview(conn: AsyncConnection) -> Overview:
    """Reads the model."""
    listings = Listings(conn)
    return Overview(await listings.now(), await listings.runs(RunFilter(statuses=LIVE), 20), await listings.pauses())


@page("/")
async def overview(request: BoardRequest) -> Page:
    """Shows the overview."""
    return Page("overview.html", await request.read("overview", read_overview), "Overview")
