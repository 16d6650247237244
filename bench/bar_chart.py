"""A bar chart as SVG: readable on light and dark pages, small, and the same text for the same figures."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH: Final = 760
NAMES: Final = 130  # pixels for the names at the left
VALUES: Final = 70  # pixels for the values at the right
TOP: Final = 56
THICK: Final = 14
GAP: Final = 12  # between groups

STYLE: Final = """\
text { font: 12px system-ui, sans-serif; fill: #1f2328 }
.title { font-weight: 600; font-size: 14px }
.value { font-size: 11px }
.spread { stroke: #1f2328; stroke-width: 1.2; opacity: .55 }
.s0 { fill: #9ec1e8 } .s1 { fill: #5a94d6 } .s2 { fill: #2b66ab } .s3 { fill: #163e6e }
.first .s0 { fill: #f5c68b } .first .s1 { fill: #e99a3c } .first .s2 { fill: #bf6c0b } .first .s3 { fill: #854800 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .spread { stroke: #e6edf3 }
}"""


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: a median, and the least and the greatest value."""

    median: float
    least: float
    greatest: float


@dataclass(frozen=True, slots=True)
class Group:
    """Bars side by side under one name; None: there is nothing to show."""

    name: str
    bars: Sequence[Bar | None]


def bar_chart(title: str, series: Sequence[str], groups: Sequence[Group]) -> str:
    """Groups from the top down, a bar for each of `series` (up to four) in each. The first group has its own colour."""
    longest = max((bar.greatest for group in groups for bar in group.bars if bar), default=1.0)
    scale = (WIDTH - NAMES - VALUES) / longest
    group_height = THICK * len(series) + GAP
    height = TOP + group_height * len(groups)
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(title)}">',
        f"<style>{STYLE}</style>",
        f'<text class="title" x="8" y="20">{escape(title)}</text>',
        *_legend(series),
    ]
    for index, group in enumerate(groups):
        lines += _group(group, TOP + index * group_height, scale, first=index == 0)
    return "\n".join([*lines, "</svg>\n"])


def _legend(series: Sequence[str]) -> list[str]:
    return [
        f'<rect class="s{index}" x="{NAMES + index * 110}" y="32" width="10" height="10"/>'
        f'<text x="{NAMES + 15 + index * 110}" y="41">{escape(name)}</text>'
        for index, name in enumerate(series)
    ]


def _group(group: Group, top: float, scale: float, *, first: bool) -> list[str]:
    middle = top + THICK * len(group.bars) / 2 + 4
    lines = [f'<g class="{"first" if first else "other"}">', f'<text x="8" y="{middle:g}">{escape(group.name)}</text>']
    for index, bar in enumerate(group.bars):
        if bar is not None:
            lines += _bar(bar, index, top + index * THICK, scale)
    return [*lines, "</g>"]


def _bar(bar: Bar, index: int, top: float, scale: float) -> list[str]:
    least, end, greatest = (round(NAMES + value * scale, 1) for value in (bar.least, bar.median, bar.greatest))
    middle = top + THICK / 2 - 1
    return [
        f'<rect class="s{index}" x="{NAMES}" y="{top:g}" width="{max(1.0, end - NAMES):.1f}" height="{THICK - 2}"/>',
        f'<path class="spread" d="M{least:g} {middle:g}H{greatest:g}"/>',
        f'<text class="value" x="{max(end, greatest) + 5:g}" y="{middle + 4:g}">{bar.median:,.0f}</text>',
    ]
