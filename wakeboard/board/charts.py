"""Draws charts of intervals as SVG: stacked bars, lines, and sparklines.

Each function is pure: numbers in, markup out. A drawing has attributes and CSS classes only, so the content security
policy allows it and board.css gives it the colours of the theme. It has no width of its own: what is measured in
intervals is stretched to the space there is, and text keeps its size. The ends of the scale are round numbers. An
interval without a value is a gap, and each interval with one is a link to the runs behind it.

Times are in UTC; board.js rewrites elements with `data-time` and `data-from` into the viewer's zone.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Final, Literal

from markupsafe import Markup

from wakeboard.text.humanize import lasted
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Unit = Literal["number", "share", "seconds"]

PLOT_HEIGHT: Final = 132  # units of the drawing, which are pixels from top to bottom
TOP: Final = 8
HEIGHT: Final = TOP + PLOT_HEIGHT + 24
SCALE_WIDTH: Final = 56
COLUMN: Final = 10  # units from one interval to the next
BAR: Final = 8
MOST_INTERVALS: Final = 4  # of the scale
MOST_LABELS: Final = 8  # of the time axis
LEAST_BAR: Final = 1.5  # a bar of one run among thousands can still be seen
SPARKLINE_HEIGHT: Final = 20

_SECONDS: Final = (
    *(digit * 10**power / 1000 for power in range(3) for digit in (1, 2, 5)),
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800),
    *(3600 * hours for hours in (1, 2, 3, 6, 12, 24, 48, 120, 240)),
)
_UNITS: Final = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"), (0.001, "ms"))
_LABEL_STEPS: Final = tuple(
    timedelta(minutes=minutes)
    for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 7 * 1440, 14 * 1440, 28 * 1440)
)
_MONDAY: Final = datetime(1970, 1, 5, tzinfo=UTC)
_DAY: Final = timedelta(days=1)
_EDGE: Final = 0.02  # of the width, where a label would not fit


@dataclass(frozen=True, slots=True)
class Interval:
    """What a column of a chart stands for. `href`: the runs behind it; "" for none."""

    starts_at: datetime
    ends_at: datetime
    href: str = ""


@dataclass(frozen=True, slots=True)
class Layer:
    """The values of one colour, one for each interval. None: there is none.

    `key`: names the colour, as the CSS class `chart-KEY`. `total`: of all intervals together, for the legend, as text.
    `href`: the runs of all intervals; "" for none.
    """

    key: str
    label: str
    values: Sequence[float | None]
    total: str = ""
    href: str = ""


@dataclass(frozen=True, slots=True)
class Scale:
    """A scale from 0 to `top`, both included. `ticks`: round numbers, the lowest first."""

    top: float
    ticks: tuple[float, ...]
    unit: Unit

    def label(self, tick: float) -> str:
        """A tick in words. All ticks of a scale have the same unit."""
        if self.unit == "number":
            return f"{tick:,.0f}"
        if self.unit == "share":
            return f"{100 * tick:.4g} %"
        if not tick:
            return "0"
        size, name = next(each for each in _UNITS if self.top >= each[0] and _tenths(self.ticks[1] / each[0]))
        return f"{round(tick / size, 1):g} {name}"

    def y(self, value: float) -> float:
        """The height of a value in the drawing, from its top."""
        return round(PLOT_HEIGHT * (1 - value / self.top), 1)


def scale_of(values: Iterable[float | None], unit: Unit) -> Scale:
    """The scale for these values: at most four intervals of a round length."""
    largest = max((value for value in values if value is not None), default=0.0)
    if unit == "seconds":
        step = next((each for each in _SECONDS if largest <= MOST_INTERVALS * each), 0.0)
        step = step or 864_000 * _round_up(largest / (864_000 * MOST_INTERVALS))
    elif unit == "share":
        step = min(_round_up(max(largest, 0.01) / MOST_INTERVALS), 0.5)
    else:
        step = max(1.0, _round_up(largest / MOST_INTERVALS))
    count = max(1, ceil(round(largest / step, 9)))
    return Scale(step * count, tuple(round(step * number, 9) for number in range(count + 1)), unit)


def bar_chart(title: str, intervals: Sequence[Interval], layers: Sequence[Layer]) -> Markup:
    """Bars of counts; the first layer is the lowest part of each bar."""
    sums = [
        sum(layer.values[place] or 0 for layer in layers) if any(layer.values[place] for layer in layers) else None
        for place in range(len(intervals))
    ]
    scale = scale_of(sums, "number")
    columns = [
        Markup("").join(_bar_parts(place, [(layer.key, layer.values[place] or 0) for layer in layers], scale))
        if sums[place]
        else Markup("")
        for place in range(len(intervals))
    ]
    return _figure(title, intervals, layers, scale, columns, lines=Markup(""))


def line_chart(
    title: str, intervals: Sequence[Interval], layers: Sequence[Layer], unit: Unit, *, area: bool = False
) -> Markup:
    """Lines through the values of each layer. `area`: what is below a line is filled."""
    scale = scale_of((value for layer in layers for value in layer.values), unit)
    paths: list[Markup] = []
    for layer in layers:
        runs = list(_segments([None if value is None else scale.y(value) for value in layer.values]))
        if area:
            filled = "".join(f"{_path(run)}V{PLOT_HEIGHT}H{run[0][0]}Z" for run in runs)
            paths.append(Markup('<path class="chart-area chart-{}" d="{}"/>').format(layer.key, filled))
        for drawn, kind in (
            ("".join(_path(run) for run in runs if len(run) > 1), "chart-line"),
            ("".join(_path(run) for run in runs if len(run) == 1), "chart-line chart-dot"),
        ):
            if drawn:
                paths.append(Markup('<path class="{} chart-{}" d="{}"/>').format(kind, layer.key, drawn))
    return _figure(title, intervals, layers, scale, [Markup("")] * len(intervals), lines=Markup("").join(paths))


def sparkline(label: str, counts: Sequence[tuple[int, int]]) -> Markup:
    """Small bars: of each interval the number of runs and, over it, of failures. `label`: what they say in words."""
    largest = max((max(pair) for pair in counts), default=0)
    paths = [_bars([pair[part] for pair in counts], largest) for part in (0, 1)]
    return Markup(
        '<svg class="sparkline" role="img" aria-label="{}" viewBox="0 0 {} {}" preserveAspectRatio="none">'
        '<path class="chart-runs" d="{}"/><path class="chart-failures" d="{}"/></svg>'
    ).format(one_line(label), max(1, 2 * len(counts)), SPARKLINE_HEIGHT, *paths)


def written(value: float | None, unit: Unit) -> str:
    """A value for readers: "1,234", "0.8 %", "85 ms", or "-" for none."""
    if value is None:
        return "-"
    if unit == "number":
        return f"{value:,.0f}"
    if unit == "seconds":
        return lasted(timedelta(seconds=value))
    return f"{100 * value:.3g} %"


def moment_text(moment: datetime, step: timedelta) -> str:
    """When an interval begins, in UTC. Of a day its date."""
    utc = moment.astimezone(UTC)
    return f"{utc:%Y-%m-%d}" if step >= _DAY else f"{utc:%Y-%m-%d %H:%M} UTC"


def _figure(
    title: str,
    intervals: Sequence[Interval],
    layers: Sequence[Layer],
    scale: Scale,
    columns: Sequence[Markup],
    lines: Markup,
) -> Markup:
    """The drawing with its title, legend and axes. `columns`: what is drawn of each interval."""
    step = intervals[0].ends_at - intervals[0].starts_at if intervals else _DAY
    described = f"{title}: " + (", ".join(f"{layer.label} {layer.total}" for layer in layers) or "nothing")
    links = Markup("").join(
        _column(place, interval, drawn, _values_text(layers, place, scale.unit), step)
        for place, (interval, drawn) in enumerate(zip(intervals, columns, strict=True))
        if any(layer.values[place] is not None for layer in layers)
    )
    return Markup(
        '<figure class="chart"><figcaption><span class="chart-title">{}</span><span class="chart-keys">{}</span>'
        '</figcaption><div class="chart-body">'
        '<svg class="chart-scale" width="{}" height="{}" aria-hidden="true">{}</svg>'
        '<svg class="chart-plot" width="100%" height="{}" role="group" aria-label="{}">{}'
        '<svg y="{}" width="100%" height="{}" viewBox="0 0 {} {}" preserveAspectRatio="none">{}{}</svg>{}</svg>'
        "</div></figure>"
    ).format(
        title,
        Markup(" ").join(_key(layer) for layer in layers),
        SCALE_WIDTH,
        HEIGHT,
        Markup("").join(
            Markup('<text x="{}" y="{}">{}</text>').format(SCALE_WIDTH - 8, TOP + scale.y(tick) + 4, scale.label(tick))
            for tick in scale.ticks
        ),
        HEIGHT,
        described,
        Markup("").join(
            Markup('<line class="chart-grid{}" x2="100%" y1="{}" y2="{}"/>').format(
                "" if tick else " chart-base", TOP + scale.y(tick), TOP + scale.y(tick)
            )
            for tick in scale.ticks
        ),
        TOP,
        PLOT_HEIGHT,
        max(1, len(intervals)) * COLUMN,
        PLOT_HEIGHT,
        lines,
        links,
        Markup("").join(_time_labels(intervals, step)),
    )


def _key(layer: Layer) -> Markup:
    """An entry of the legend."""
    text = Markup("{} <b>{}</b>").format(layer.label, layer.total) if layer.total else Markup("{}").format(layer.label)
    if layer.href:
        return Markup('<a class="chart-key chart-key-{}" href="{}">{}</a>').format(layer.key, layer.href, text)
    return Markup('<span class="chart-key chart-key-{}">{}</span>').format(layer.key, text)


def _column(place: int, interval: Interval, drawn: Markup, text: str, step: timedelta) -> Markup:
    """What is drawn of an interval, and over it an area that shows the numbers and leads to the runs."""
    zone = Markup("")
    if step < _DAY:
        zone = Markup(' data-from="{}" data-until="{}"').format(_iso(interval.starts_at), _iso(interval.ends_at))
    column = Markup('<title{}>{}: {}</title>{}<rect class="chart-column" x="{}" width="{}" height="{}"/>').format(
        zone, moment_text(interval.starts_at, step), text, drawn, COLUMN * place, COLUMN, PLOT_HEIGHT
    )
    if not interval.href:
        return Markup("<g>{}</g>").format(column)
    return Markup('<a href="{}" tabindex="-1">{}</a>').format(interval.href, column)


def _values_text(layers: Sequence[Layer], place: int, unit: Unit) -> str:
    values = [(layer.label, layer.values[place]) for layer in layers]
    return (
        ", ".join(f"{label} {written(value, unit)}" for label, value in values if value or unit != "number") or "none"
    )


def _bar_parts(place: int, parts: Sequence[tuple[str, float]], scale: Scale) -> Iterable[Markup]:
    bottom = float(PLOT_HEIGHT)
    for key, value in parts:
        if value:
            height = max(round(PLOT_HEIGHT * value / scale.top, 1), LEAST_BAR)
            bottom = max(0.0, round(bottom - height, 1))
            yield Markup('<rect class="chart-{}" x="{}" y="{}" width="{}" height="{}"/>').format(
                key, COLUMN * place + (COLUMN - BAR) // 2, bottom, BAR, height
            )


def _bars(counts: Sequence[int], largest: int) -> str:
    heights = [
        (place, max(1.0, round(SPARKLINE_HEIGHT * count / largest, 1))) for place, count in enumerate(counts) if count
    ]
    return "".join(f"M{2 * place}.2 {SPARKLINE_HEIGHT}v-{height:g}h1.6v{height:g}z" for place, height in heights)


def _segments(heights: Sequence[float | None]) -> Iterable[list[tuple[int, float]]]:
    """The points (x, y) of each stretch without a gap."""
    run: list[tuple[int, float]] = []
    for place, height in enumerate(heights):
        if height is not None:
            run.append((COLUMN * place + COLUMN // 2, height))
        elif run:
            yield run
            run = []
    if run:
        yield run


def _path(points: Sequence[tuple[int, float]]) -> str:
    """A line through these points; a single one is a line without length, which board.css draws as a disc."""
    first, *others = points
    return f"M{first[0]} {first[1]:g}" + ("".join(f"L{x} {y:g}" for x, y in others) or "h0")


def _time_labels(intervals: Sequence[Interval], step: timedelta) -> Iterable[Markup]:
    """Labels at round times. Every second one is left out where there is little space."""
    if not intervals:
        return
    span = intervals[-1].ends_at - intervals[0].starts_at
    apart = next((each for each in _LABEL_STEPS if span <= MOST_LABELS * each), _LABEL_STEPS[-1])
    kind, form = ("hour", "%H:%M") if apart < _DAY else ("day", "%a %d") if step < _DAY else ("date", "%d %b")
    for place, interval in enumerate(intervals):
        since = interval.starts_at - _MONDAY
        if since % apart:
            continue
        share = (place + (0.5 if step >= _DAY else 0.0)) / len(intervals)
        utc = interval.starts_at.astimezone(UTC)
        if not _EDGE < share < 1 - _EDGE:
            continue
        zone = Markup("")
        if kind != "date":
            zone = Markup(' data-time="{}" data-form="{}"').format(_iso(utc), kind)
        minor = " chart-minor" if (since // apart) % 2 else ""
        yield Markup('<text class="chart-time{}" x="{:.4g}%" y="{}"{}>{}</text>').format(
            minor, 100 * share, HEIGHT - 6, zone, f"{utc:{form}}"
        )


def _iso(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%MZ}"


def _round_up(value: float) -> float:
    """The smallest of 1, 2 and 5 times a power of ten that is not below a value."""
    if value <= 0:
        return 0.0
    power = 10.0 ** floor(log10(value))

    return round(next(each for each in (1, 2, 5, 10) if value <= each * power * (1 + 1e-9)) * power, 12)


def _tenths(number: float) -> bool:
    return abs(round(number, 1) - number) < 1e-9 * max(1.0, number) and number >= 0.1  # noqa: PLR2004
