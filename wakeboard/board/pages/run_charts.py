"""Charts of how runs ended, from the figures in `run_rollups`, for every page that has some.

A page names a Scope (all runs, a job type, a queue, a schedule or a step) and a period, and gets four drawings, the
same numbers as a table, and the periods to choose from. A viewer of some namespaces gets the sum of the schedules in
them instead of all runs. Reads are shared for 10 s, so viewers and live updates cost nothing more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from wakeboard.board.charts import Interval, Layer, bar_chart, line_chart, moment_text, written
from wakeboard.text.humanize import lasted
from wakeboard.views.queries.backlog import read_waiting
from wakeboard.views.queries.listings import Listings
from wakeboard.views.queries.rollups import OutcomeCounts, read_schedules, read_series
from wakeboard.views.rules.run_search import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from markupsafe import Markup

    from wakeboard.board.charts import Unit
    from wakeboard.board.routing import BoardRequest
    from wakeboard.store.connection import AsyncConnection
    from wakeboard.views.queries.rollups import Dimension, Series, Window
    from wakeboard.views.rules.histogram import Histogram

PERIODS: Final[Mapping[str, tuple[Window, str]]] = {
    "hour": ("hour", "Hour"),
    "day": ("day", "Day"),
    "week": ("week", "Week"),
    "90d": ("quarter", "90 days"),
}
DEFAULT_PERIOD: Final = "day"
_HOUR: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)
_LATE: Final = timedelta(minutes=3)  # of counting, which is done each minute
ENDED: Final = "status:succeeded,cancelled,skipped,discarded,dead"
FAILED: Final = "status:failed,dead,discarded"
_OUTCOMES: Final = (  # the lowest part of a bar first
    ("succeeded", "succeeded", "status:succeeded"),
    ("cancelled", "cancelled", "status:cancelled"),
    ("skipped", "skipped", "status:skipped"),
    ("died", "became dead", "status:dead,discarded"),
)


@dataclass(frozen=True, slots=True)
class Scope:
    """Of which runs the figures are. `name`: as in rollups.read_series. `terms`: the search for these runs."""

    dimension: Dimension = "all"
    name: str = ""
    terms: str = ""


@dataclass(frozen=True, slots=True)
class PeriodChoice:
    """A period to choose."""

    key: str
    label: str
    current: bool


@dataclass(frozen=True, slots=True)
class Row:
    """The figures of one interval as text."""

    moment: str
    starts_at: datetime | None
    href: str
    counts: OutcomeCounts
    failure_rate: str
    times: tuple[str, str, str, str]
    due: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCharts:
    """Charts of one scope and period, and the same figures as rows, newest first.

    `behind_since`: what ended later is not counted yet; None: everything is. `backlog`: the chart of the runs that
    waited, where all runs are shown. A chart without a value is None. `parameters`: of the page's URL, without the
    period.
    """

    choices: Sequence[PeriodChoice]
    outcomes: Markup
    failures: Markup | None
    durations: Markup | None
    lateness: Markup | None
    rows: Sequence[Row]
    is_empty: bool
    behind_since: datetime | None = None
    backlog: Markup | None = None
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def drawings(self) -> Sequence[Markup]:
        """The charts that show something, in the order in which they are shown."""
        runs = () if self.is_empty else (self.outcomes, self.failures, self.durations, self.lateness)
        return [drawing for drawing in (*runs, self.backlog) if drawing]


def period_of(text: str | None, *, hour: bool = True) -> str:
    """The period that the URL names, a key of PERIODS. `hour`: the last hour can be shown."""
    return text if text in PERIODS and (hour or text != "hour") else DEFAULT_PERIOD


def choices(period: str, *, hour: bool = True) -> list[PeriodChoice]:
    """The periods to choose from."""
    return [PeriodChoice(key, label, key == period) for key, (_, label) in PERIODS.items() if hour or key != "hour"]


async def read_run_charts(
    request: BoardRequest, scope: Scope | None = None, parameters: Mapping[str, str] | None = None
) -> RunCharts:
    """The charts for the period that the request's URL names. Raises WakeboardError.

    `scope`: the viewer may see it; None: all runs that the viewer may see.
    """
    namespaces = request.viewer.namespaces if scope is None else None
    scope = scope or Scope("all" if namespaces is None else "schedule")
    hour = scope.dimension != "step" and namespaces is None

    async def read_period(period: str) -> tuple[datetime, Series, Sequence[int | None] | None]:
        async def read(conn: AsyncConnection) -> tuple[datetime, Series, Sequence[int | None] | None]:
            now, series = await _read(conn, PERIODS[period][0], scope, namespaces)
            starts = [point.starts_at for point in series.points]
            return now, series, await read_waiting(conn, starts, series.step) if scope == Scope() else None

        return await request.read_cached(("charts", scope.dimension, scope.name, period, namespaces), read)

    asked = request.query.get("period")
    period = period_of(asked, hour=hour)
    now, series, backlog = await read_period(period)
    if asked != period and (better := _better_period(series, now, hour=hour)):
        found = await read_period(better)
        if better == "hour" or found[1].total != OutcomeCounts():
            period, (now, series, backlog) = better, found

    def runs(terms: str) -> str:
        return request.url("/runs", q=" ".join(filter(None, [scope.terms, terms])))

    return run_charts(series, now, runs, choices(period, hour=hour), parameters or {}, backlog)


def _better_period(series: Series, now: datetime, *, hour: bool) -> str | None:
    """The period to show instead of a day of these figures; None: the day.

    It is the hour if all of them are of the last hour, and 90 days if there are none.
    """
    ended = [point.starts_at for point in series.points if point.counts != OutcomeCounts()]
    if not ended:
        return "90d"
    return "hour" if hour and ended[0] > now - _HOUR else None


async def _read(
    conn: AsyncConnection, window: Window, scope: Scope, namespaces: Collection[str] | None
) -> tuple[datetime, Series]:
    now = await Listings(conn).now()
    if namespaces is None:
        return now, (await read_series(conn, window, now, scope.dimension, [scope.name]))[0]
    visible = await read_schedules(conn, namespaces)
    return now, (await read_series(conn, window, now, "schedule", visible, merged=True))[0]


def run_charts(
    series: Series,
    now: datetime,
    runs: Callable[[str], str],
    periods: Sequence[PeriodChoice],
    parameters: Mapping[str, str],
    backlog: Sequence[int | None] | None = None,
) -> RunCharts:
    """The charts of a series. `runs`: the link to the runs that a search finds, without the scope.

    `backlog`: the most runs that waited in each period; None: without this chart, also if none is known.
    """
    backlog = backlog if backlog and any(due is not None for due in backlog) else None
    columns = [_interval_at(series, place) for place in range(len(series.points))]
    counts = [point.counts for point in series.points]
    total = series.total
    whole = f"{ENDED} {_ended_within(columns[0][0], columns[-1][1])}"

    def linked(terms: str) -> list[Interval]:
        return [
            Interval(*column, runs(f"{terms} {_ended_within(*column)}") if count != OutcomeCounts() else "")
            for column, count in zip(columns, counts, strict=True)
        ]

    return RunCharts(
        choices=periods,
        outcomes=bar_chart("Runs by outcome", linked(ENDED), _outcomes(counts, total, whole, runs)),
        failures=_line_chart(
            "Failure rate",
            linked(FAILED),
            [
                Layer(
                    "failures",
                    "of attempts",
                    [each.failure_rate for each in counts],
                    f"{written(total.failure_rate, 'share')} ({total.failures:,})",
                    runs(whole.replace(ENDED, FAILED)),
                )
            ],
            "share",
            area=True,
        ),
        durations=_line_chart(
            "Duration", linked("status:succeeded"), _quantiles([c.duration for c in counts], total.duration), "seconds"
        ),
        lateness=_line_chart(
            "Lateness", linked("status:succeeded"), _quantiles([c.lateness for c in counts], total.lateness), "seconds"
        ),
        rows=[
            _row(column[0], count, runs(f"{ENDED} {_ended_within(*column)}"), series, due)
            for column, count, due in reversed(list(zip(columns, counts, backlog or [None] * len(counts), strict=True)))
            if count != OutcomeCounts() or due
        ],
        is_empty=total == OutcomeCounts(),
        behind_since=series.until if now - series.until > 2 * series.step and now - series.until > _LATE else None,
        backlog=_backlog(columns, backlog, runs("status:queued")) if backlog else None,
        parameters=parameters,
    )


def _line_chart(
    title: str, intervals: Sequence[Interval], layers: Sequence[Layer], unit: Unit, *, area: bool = False
) -> Markup | None:
    """The chart; None: no layer has a value."""
    if all(value is None for layer in layers for value in layer.values):
        return None
    return line_chart(title, intervals, layers, unit, area=area)


def _backlog(columns: Sequence[tuple[datetime, datetime]], due: Sequence[int | None], href: str) -> Markup:
    most = max((each for each in due if each is not None), default=None)
    measured = max((end for (_, end), each in zip(columns, due, strict=True) if each is not None), default=None)
    silence = columns[-1][1] - measured if measured else timedelta(0)  # nothing that samples the backlog works
    label = f"most runs due, not measured for {lasted(silence)}" if silence else "most runs due"
    layer = Layer("due", label, due, written(most, "number"), href)
    return line_chart("Backlog", [Interval(*column) for column in columns], [layer], "number", area=True)


def _outcomes(
    counts: Sequence[OutcomeCounts], total: OutcomeCounts, whole: str, runs: Callable[[str], str]
) -> list[Layer]:
    return [
        Layer(
            key,
            label,
            [getattr(each, key) for each in counts],
            f"{getattr(total, key):,}",
            runs(whole.replace(ENDED, terms)),
        )
        for key, label, terms in _OUTCOMES
    ]


def _quantiles(histograms: Sequence[Histogram], total: Histogram) -> list[Layer]:
    return [
        Layer(key, key, [each.quantile(share) for each in histograms], written(total.quantile(share), "seconds"))
        for key, share in (("p50", 0.5), ("p95", 0.95))
    ]


def _row(starts_at: datetime, counts: OutcomeCounts, href: str, series: Series, due: int | None) -> Row:
    quantiles = [h.quantile(share) for h in (counts.duration, counts.lateness) for share in (0.5, 0.95)]
    p50, p95, late50, late95 = (written(each, "seconds") for each in quantiles)
    return Row(
        moment_text(starts_at, series.step),
        starts_at if series.step < _DAY else None,
        href,
        counts,
        written(counts.failure_rate, "share"),
        (p50, p95, late50, late95),
        written(due, "number"),
    )


def _interval_at(series: Series, place: int) -> tuple[datetime, datetime]:
    """The beginning and the end of an interval."""
    starts_at = series.points[place].starts_at
    return starts_at, starts_at + series.step


def _ended_within(since: datetime, until: datetime) -> str:
    """The search for the runs that ended in an interval."""
    return f"since:{since.astimezone(UTC):%Y-%m-%dT%H:%MZ} until:{until.astimezone(UTC):%Y-%m-%dT%H:%MZ}"


def scope_of(dimension: Dimension, name: str, label: str) -> Scope:
    """The scope of one name. `label`: of a schedule namespace/name, otherwise the name."""
    match dimension:
        case "job_type":
            return Scope(dimension, name, f"type:{quoted(label)}")
        case "queue":
            return Scope(dimension, name, f"queue:{quoted(label)}")
        case "schedule":
            return Scope(dimension, name, f"schedule:{quoted(label)}")
        case "step":
            return Scope(dimension, name, f"type:{quoted(name.partition(' ')[0])}" if name else "")
        case _:
            return Scope(dimension, name)
