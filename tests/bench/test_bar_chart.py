"""Bar charts: SVG that any browser reads, on light and dark pages."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from bench.bar_chart import Bar, Group, bar_chart

SVG = "{http://www.w3.org/2000/svg}"
GROUPS = [
    Group("wakeboard", [Bar(120_000, 110_000, 130_000), Bar(150_000, 140_000, 160_000)]),
    Group("a <slow> one", [Bar(1_000, 900, 1_100), None]),
]


def chart() -> ET.Element:
    return ET.fromstring(bar_chart("Jobs & more", ["1 process", "2 processes"], GROUPS))


def widths(group: ET.Element) -> list[float]:
    return [float(bar.get("width", "")) for bar in group.iter(f"{SVG}rect")]


def test_bars_are_as_long_as_their_values() -> None:
    ours, theirs = chart().findall(f"{SVG}g")

    assert widths(ours)[1] / widths(ours)[0] == 150_000 / 120_000
    assert widths(theirs)[0] < widths(ours)[0] / 50


def test_what_was_not_measured_has_no_bar() -> None:
    _, theirs = chart().findall(f"{SVG}g")

    assert len(widths(theirs)) == 1


def test_every_bar_shows_its_median() -> None:
    shown = [text.text for text in chart().iter(f"{SVG}text") if text.get("class") == "value"]

    assert shown == ["120,000", "150,000", "1,000"]


def test_it_is_readable_on_dark_pages() -> None:
    assert "prefers-color-scheme: dark" in bar_chart("Jobs", ["1 process"], GROUPS)


def test_the_same_figures_make_the_same_file() -> None:
    assert bar_chart("Jobs", ["1 process"], GROUPS) == bar_chart("Jobs", ["1 process"], GROUPS)
