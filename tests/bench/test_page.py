"""The page of figures: sections by command, tables of thresholds, and bar charts that any browser reads."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from bench.bar_chart import Bar, Group, bar_chart
from bench.page import HEADING, section_of, with_section
from bench.tables import at_least, at_most, thresholds_table


def test_a_section_can_be_replaced() -> None:
    page = with_section("", "make bench", "## Figures\n\n1, 2, 3\n")

    assert page.startswith(HEADING)
    assert section_of(page, "make bench") == "## Figures\n\n1, 2, 3"
    assert section_of(page, "make bench-competitors") == ""


def test_a_command_leaves_the_other_section_alone() -> None:
    page = with_section("", "make bench-competitors", "theirs")
    page = with_section(page, "make bench", "ours")
    page = with_section(page, "make bench", "ours, again")

    assert section_of(page, "make bench-competitors") == "theirs"
    assert section_of(page, "make bench") == "ours, again"


def test_the_median_decides() -> None:
    assert at_least("rate", 100, [10, 100, 500]).met
    assert not at_least("rate", 100, [99, 99, 500]).met
    assert at_most("ms", 5, [5, 4, 900]).met
    assert not at_most("ms", 5, [1, 5.1, 6]).met


def test_missed_thresholds_come_first_with_their_reason() -> None:
    table = thresholds_table(
        [at_most("kept, ms", 5, [4]), at_least("missed, runs/s", 200_000, [100_000], "the server")]
    )

    assert table.note == "2 thresholds: the median keeps 1 and misses 1."
    assert table.rows == [
        ("missed, runs/s", "at least 200,000", "100,000", "**missed** the server"),
        ("kept, ms", "at most 5", "4.00", ""),
    ]


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
