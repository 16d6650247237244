"""Figures by job type, queue, schedule or step: a table to sort and to search, and the charts of one name.

All state is in the URL: `by` (the dimension), `name` (of the charts), `period`, `sort` and `q` (a part of the name).
A viewer of some namespaces gets schedules only, those in them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wakeboard.board.charts import sparkline, written
from wakeboard.board.pages.errors import NotFound
from wakeboard.board.pages.run_charts import PERIODS, choices, period_of, read_run_charts, scope_of
from wakeboard.board.routing import BoardRequest, Page, page
from wakeboard.text.humanize import counted
from wakeboard.text.object_ids import parse_id
from wakeboard.text.sanitize import one_line
from wakeboard.views.queries.listings import Listings
from wakeboard.views.queries.rollups import read_schedules, read_sparklines, read_top
from wakeboard.views.queries.schedule_page import schedule_row

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from markupsafe import Markup

    from wakeboard.board.pages.run_charts import PeriodChoice, RunCharts, Scope
    from wakeboard.store.connection import AsyncConnection
    from wakeboard.views.queries.rollups import Dimension, NamedCounts, Order, OutcomeCounts

SHOWN: Final = 100
RANKED: Final = 200  # the names that are ordered by a duration
LONGEST_NAME: Final = 300  # characters
DIMENSIONS: Final[Mapping[str, tuple[Dimension, str]]] = {
    "type": ("job_type", "Job types"),
    "queue": ("queue", "Queues"),
    "schedule": ("schedule", "Schedules"),
    "step": ("step", "Steps"),
}
COLUMNS: Final[Mapping[str, tuple[str, Order]]] = {  # of the table: its heading, and the order in which names are read
    "name": ("Name", "name"),
    "runs": ("Ended", "volume"),
    "failures": ("Failed attempts", "failures"),
    "rate": ("Failure rate", "failure_rate"),
    "p50": ("Duration p50", "volume"),
    "p95": ("Duration p95", "volume"),
    "lateness": ("Lateness p95", "volume"),
}
_MEASURES: Final[Mapping[str, Callable[[OutcomeCounts], float | None]]] = {
    "p50": lambda counts: counts.duration.quantile(0.5),
    "p95": lambda counts: counts.duration.quantile(0.95),
    "lateness": lambda counts: counts.lateness.quantile(0.95),
}


@dataclass(frozen=True, slots=True)
class FigureLine:
    """The figures of one name as text."""

    name: str
    label: str
    runs: str
    failures: int
    failure_rate: str
    p50: str
    p95: str
    lateness: str
    drawing: Markup


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance:
    """The model of the page: `charts` of the name that the URL has, or `lines` of all names.

    `parameters`: of the page's URL, without the period. `more`: there are more names than lines. `ranked`: lines are in
    the order of a duration, which only the names with the most runs have.
    """

    by: str
    dimensions: Sequence[tuple[str, str]]
    name: str = ""
    label: str = ""
    charts: RunCharts | None = None
    runs: str = ""
    lines: Sequence[FigureLine] = ()
    more: bool = False
    ranked: bool = False
    sort: str = "runs"
    q: str = ""
    period: str = ""
    choices: Sequence[PeriodChoice] = ()
    parameters: Mapping[str, str]
    columns: Sequence[tuple[str, str]] = tuple((key, heading) for key, (heading, _) in COLUMNS.items())
    shown: int = SHOWN
    ranked_names: int = RANKED


@page("/performance")
async def performance(request: BoardRequest) -> Page:
    """Shows the table, or the charts of one name."""
    by = _by(request)
    if name := request.query.get("name", "")[:LONGEST_NAME]:
        return await _one(request, by, name)
    return await _all(request, by)


def _by(request: BoardRequest) -> str:
    if request.viewer.namespaces is not None:
        return "schedule"
    by = request.query.get("by", "")
    return by if by in DIMENSIONS else "type"


def _dimensions(request: BoardRequest) -> list[tuple[str, str]]:
    return [
        (key, label) for key, (_, label) in DIMENSIONS.items() if request.viewer.namespaces is None or key == "schedule"
    ]


async def _one(request: BoardRequest, by: str, name: str) -> Page:
    scope, label = await _named(request, by, name)
    parameters = {"by": by, "name": name}
    charts = await read_run_charts(request, scope, parameters)
    model = Performance(
        by=by,
        dimensions=_dimensions(request),
        name=name,
        label=label,
        charts=charts,
        runs=scope.terms,
        period=request.query.get("period", ""),
        parameters=parameters,
    )
    return Page("performance.html", model, one_line(label))


async def _named(request: BoardRequest, by: str, name: str) -> tuple[Scope, str]:
    """The scope of a name, and what to call it. Raises NotFound for a schedule that the viewer may not see."""
    dimension, _ = DIMENSIONS[by]
    if dimension != "schedule":
        return scope_of(dimension, name, name), name
    return await schedule_scope(request, name)


async def schedule_scope(request: BoardRequest, schedule_id: str) -> tuple[Scope, str]:
    """The scope of a schedule, and its namespace/name. Raises NotFound if the viewer may not see it."""
    namespaces = request.viewer.namespaces
    number = parse_id(schedule_id)
    if number is None:
        raise NotFound(f"there is no schedule {one_line(schedule_id)}")
    row = await request.read_cached(
        ("schedule row", number, namespaces), lambda conn: schedule_row(conn, number, namespaces)
    )
    if row is None:
        raise NotFound(f"there is no schedule {number}")
    label = f"{row['namespace']}/{row['name']}"
    return scope_of("schedule", str(number), label), label


async def _all(request: BoardRequest, by: str) -> Page:
    dimension, title = DIMENSIONS[by]
    namespaces = request.viewer.namespaces
    hour = dimension in {"job_type", "queue"}
    period = period_of(request.query.get("period"), hour=hour)
    sort = request.query.get("sort", "")
    sort = sort if sort in COLUMNS else "runs"
    text = one_line(request.query.get("q", ""))[:LONGEST_NAME].strip()

    async def read(conn: AsyncConnection) -> list[tuple[NamedCounts, list[tuple[int, int]]]]:
        return await _read(conn, dimension, period, sort, text, namespaces)

    found = await request.read_cached(("performance", by, period, sort, text, namespaces), read)
    parameters = {"by": by, "sort": sort if sort != "runs" else "", "q": text}
    model = Performance(
        by=by,
        dimensions=_dimensions(request),
        lines=[_line(named, points) for named, points in found[:SHOWN]],
        more=len(found) > SHOWN,
        ranked=sort in _MEASURES and len(found) > SHOWN,
        sort=sort,
        q=text,
        period=request.query.get("period", ""),
        choices=choices(period, hour=hour),
        parameters=parameters,
    )
    return Page("performance.html", model, f"Performance: {title.lower()}")


async def _read(
    conn: AsyncConnection, dimension: Dimension, period: str, sort: str, text: str, namespaces: frozenset[str] | None
) -> list[tuple[NamedCounts, list[tuple[int, int]]]]:
    """At most SHOWN + 1 names in their order, with the points of their sparklines."""
    now, window = await Listings(conn).now(), PERIODS[period][0]
    names: list[str] | None = None
    if dimension == "schedule" and (text or namespaces is not None):  # their names are not in the figures
        names, text = await read_schedules(conn, namespaces, text), ""
    measure = _MEASURES.get(sort)
    limit = RANKED if measure else SHOWN + 1
    found = await read_top(conn, window, now, dimension, COLUMNS[sort][1], limit, names=names, containing=text)
    if measure:
        found = sorted(found, key=lambda named: measure(named.counts) or -1.0, reverse=True)[: SHOWN + 1]
    elif sort == "name":
        found = sorted(found, key=lambda named: named.label)
    points = await read_sparklines(conn, window, now, dimension, [named.name for named in found[:SHOWN]])
    return [(named, points.get(named.name, [])) for named in found]


def _line(named: NamedCounts, points: list[tuple[int, int]]) -> FigureLine:
    counts = named.counts
    label = f"{counted(counts.ended, 'run')} ended, {counted(counts.failures, 'attempt')} failed"
    p50, p95, lateness = (written(measure(counts), "seconds") for measure in _MEASURES.values())
    return FigureLine(
        named.name,
        named.label or "other steps",
        f"{counts.ended:,}",
        counts.failures,
        written(counts.failure_rate, "share"),
        p50,
        p95,
        lateness,
        sparkline(label, points),
    )
