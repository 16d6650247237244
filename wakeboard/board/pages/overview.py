"""The first page: whether everything is all right, what is wrong, and what happens now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wakeboard.board.problems import Problem, Situation, problems
from wakeboard.board.routing import BoardRequest, Page, page
from wakeboard.store.queries.health_checks import read_definitions, read_due, read_maintenance
from wakeboard.store.queries.listings import Listings
from wakeboard.store.queries.overview import OverviewQueries

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from wakeboard.store.connection import AsyncConnection
    from wakeboard.store.queries.overview import DeadGroup, LiveCounts, NextFire, PoolRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The model of the page. `problems`: worst first."""

    now: datetime
    counts: LiveCounts
    schedules: int
    problems: Sequence[Problem]
    dead: Sequence[DeadGroup]
    pools: Sequence[PoolRow]
    next_fires: Sequence[NextFire]


async def read_overview(conn: AsyncConnection, namespaces: frozenset[str] | None) -> Overview:
    """Reads the model, of the namespaces that the viewer may see."""
    queries, listings = OverviewQueries(conn, namespaces), Listings(conn)
    counts, dead, stalled = await queries.counts(), await queries.dead(), await queries.stalled()
    definitions = await read_definitions(conn)
    sees_all = namespaces is None
    situation = Situation(
        now=counts.now,
        due=await read_due(conn) if sees_all else (),
        definitions=definitions,
        maintenance=await read_maintenance(conn),
        stalled=stalled,
        dead=dead,
        limits=await listings.limits() if sees_all else (),
        pauses=[pause for pause in await listings.pauses() if _shows(pause.kind, pause.name, namespaces)],
        removals=await listings.removals() if sees_all else (),
    )
    return Overview(
        now=counts.now,
        counts=counts,
        schedules=definitions.schedules,
        problems=problems(situation),
        dead=dead,
        pools=await queries.pools(),
        next_fires=await queries.next_fires(),
    )


def _shows(kind: str, name: str | None, namespaces: frozenset[str] | None) -> bool:
    """Whether the viewer may see this pause: that of a schedule only in a visible namespace."""
    return namespaces is None or kind != "schedule" or (name or "").partition("/")[0] in namespaces


@page("/")
async def overview(request: BoardRequest) -> Page:
    """Shows the overview."""
    namespaces = request.viewer.namespaces
    model = await request.read(("overview", namespaces), lambda conn: read_overview(conn, namespaces))
    return Page("overview.html", model, "Overview")
