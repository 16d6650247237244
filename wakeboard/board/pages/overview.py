"""The first page: whether everything is all right, what is wrong, and what happens now."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from wakeboard.alerts.queries.page import AlertQueries
from wakeboard.board.charts import sparkline
from wakeboard.board.pages.run_charts import RunCharts, read_run_charts
from wakeboard.board.routing import BoardRequest, Page, page
from wakeboard.errors import DatabaseUnavailable
from wakeboard.health.conditions import problems, server_problems
from wakeboard.health.problems import Problem, severity_order
from wakeboard.health.queries.facts import read_health, read_server_health
from wakeboard.text.humanize import counted
from wakeboard.text.sanitize import one_line
from wakeboard.views.queries.overview import OverviewQueries
from wakeboard.views.queries.schedule_list import filter_choices, list_schedules
from wakeboard.views.queries.schedule_selection import ScheduleFilter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markupsafe import Markup

    from wakeboard.store.connection import AsyncConnection
    from wakeboard.text.facts import Pause
    from wakeboard.views.queries.overview import DeadGroup, LiveCounts, PoolRow
    from wakeboard.views.queries.schedule_list import ListedSchedule

WAKES_COMPARED: Final = 3
TICKS_SHOWN: Final = 8


@dataclass(frozen=True, slots=True)
class ShownPool:
    """A pool. `woke_at`, `next_at`: of a pool that wakes regularly. `strip`: its wakes by minute; None: without any."""

    row: PoolRow
    woke_at: datetime | None
    next_at: datetime | None
    strip: Markup | None


def shown_pool(row: PoolRow, now: datetime) -> ShownPool:
    """What the page shows of a pool. It wakes regularly if its last three wakes are equally far apart, in minutes."""
    latest = [wake.replace(second=0, microsecond=0) for wake in row.wakes[-WAKES_COMPARED:]]
    apart = {later - earlier for earlier, later in pairwise(latest)}
    every = apart.pop() if len(latest) == WAKES_COMPARED and len(apart) == 1 else timedelta()
    minutes = Counter(int((now - wake).total_seconds() // 60) for wake in row.wakes)
    return ShownPool(
        row,
        row.wakes[-1] if every else None,
        latest[-1] + every if every else None,
        sparkline(
            f"{counted(len(row.wakes), 'worker')} started and ended in the last hour",
            [(min(minutes[ago], 1), 0) for ago in reversed(range(60))],
        )
        if row.wakes
        else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The model of the page.

    `due`: how many runs are due, at least, with the `overdue` ticks, which nothing has enqueued yet. `problems`: worst
    first. `charts`: None until they are read, apart from all else.
    """

    now: datetime
    counts: LiveCounts
    due: int
    overdue: int
    schedules: int
    has_more_schedules: bool
    problems: Sequence[Problem]
    dead: Sequence[DeadGroup]
    pools: Sequence[ShownPool]
    next_ticks: Sequence[ListedSchedule]
    charts: RunCharts | None = None


async def read_overview(conn: AsyncConnection, namespaces: frozenset[str] | None) -> Overview:
    """Reads the model, of the namespaces that the viewer may see."""
    queries = OverviewQueries(conn, namespaces)
    counts, health = await queries.counts(), await read_health(conn, namespaces)
    active = await list_schedules(conn, ScheduleFilter(namespaces=namespaces, state="active"), "next", TICKS_SHOWN)
    queues = None if namespaces is None else frozenset((await filter_choices(conn, namespaces)).queues)
    pauses = [pause for pause in health.pauses if _shows(pause, namespaces, queues)]
    health = replace(health, pauses=pauses, alerts=await AlertQueries(conn, namespaces).counts())
    late = health.definitions.late
    return Overview(
        now=counts.now,
        counts=counts,
        due=max(counts.due, sum(each.runs for each in health.due)) + late,  # may be a lower bound
        overdue=late,
        schedules=health.definitions.schedules,
        has_more_schedules=health.definitions.more,
        problems=problems(health),
        dead=health.dead,
        pools=[
            shown_pool(pool, counts.now)
            for row in await queries.pools()
            if (pool := _with_queues(row, queues)).queues or queues is None
        ],
        next_ticks=[schedule for schedule in active.rows if schedule.next_run_at],
    )


async def shown_overview(request: BoardRequest, namespaces: frozenset[str] | None) -> Overview:
    """The model, with what keeps the primary from working, also if all else is read from a standby."""
    board = request.board

    async def of_the_primary() -> list[Problem]:
        try:
            dsn = board.options.dsn
            return server_problems(await board.server_reads.get("server", lambda conn: read_server_health(conn, dsn)))
        except DatabaseUnavailable as error:
            text = f"The primary cannot be read: {one_line(str(error)).removesuffix('.')}."
            return [Problem(text, "Bring it back. This page is read from the standby.", severity="bad")]

    model = await request.read(("overview", namespaces), lambda conn: read_overview(conn, namespaces))
    return replace(model, problems=sorted([*await of_the_primary(), *model.problems], key=severity_order))


def _shows(pause: Pause, namespaces: frozenset[str] | None, queues: frozenset[str] | None) -> bool:
    """Whether the viewer may see this pause: of a schedule or a queue only if it concerns a visible namespace."""
    if namespaces is None or queues is None:
        return True
    match pause.kind:
        case "schedule":
            return (pause.name or "").partition("/")[0] in namespaces
        case "queue":
            return pause.name in queues
        case _:
            return True


def _with_queues(pool: PoolRow, queues: frozenset[str] | None) -> PoolRow:
    """The pool with those of its queues that the viewer may see; None: all. Without any, the pool is not shown."""
    return pool if queues is None else replace(pool, queues=[queue for queue in pool.queues if queue in queues])


@page("/")
async def overview(request: BoardRequest) -> Page:
    """Shows the overview."""
    namespaces = request.viewer.namespaces
    model, charts = await asyncio.gather(
        shown_overview(request, namespaces),
        read_run_charts(request),
    )
    return Page("overview.html", replace(model, charts=charts), "Overview")
