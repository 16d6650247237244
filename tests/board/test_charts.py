"""Charts are drawings of exact figures, and pages show those of the rollups."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.etree import ElementTree as ET

import psycopg
import pytest

from testbed.generated_rollups import generate_rollups
from tests.board.asgi import VIEW, Client, GrantedViewer
from tests.board.schedules import schedules_in
from wakeboard.board.charts import PLOT_HEIGHT, Interval, Layer, bar_chart, line_chart, scale_of, sparkline
from wakeboard.views.rules.run_search import parse_run_search

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from markupsafe import Markup
    from playwright.async_api import Page

    from wakeboard.board.charts import Unit

pytestmark = pytest.mark.anyio

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
MONDAY = datetime(2026, 11, 23, tzinfo=UTC)
HOSTILE = '<script>alert(1)</script>" onmouseover="x'


def intervals(count: int, step: timedelta = timedelta(hours=1)) -> list[Interval]:
    return [Interval(NOON + place * step, NOON + (place + 1) * step, f"/runs?q={place}") for place in range(count)]


def parsed(figure: Markup) -> ET.Element:
    return ET.fromstring(str(figure))


def of_class(figure: ET.Element, name: str) -> list[ET.Element]:
    return [each for each in figure.iter() if name in each.get("class", "").split()]


def test_each_bar_is_as_high_as_its_number_says():
    figure = parsed(
        bar_chart("Runs", intervals(3), [Layer("succeeded", "ok", [100, 0, 50]), Layer("died", "dead", [0, 0, 25])])
    )
    heights = [float(bar.attrib["height"]) for bar in of_class(figure, "chart-succeeded")]
    assert heights == [PLOT_HEIGHT, PLOT_HEIGHT / 2]
    (dead,) = of_class(figure, "chart-died")
    assert float(dead.attrib["height"]) == PLOT_HEIGHT / 4
    assert float(dead.attrib["y"]) == PLOT_HEIGHT / 4  # it stands on the other part of its bar
    assert dead.attrib["x"] == of_class(figure, "chart-succeeded")[1].attrib["x"]


def test_a_line_has_a_gap_without_values_and_dots_single_ones():
    figure = parsed(line_chart("Rate", intervals(5), [Layer("failures", "all", [0.1, 0.2, None, 0.0, None])], "share"))
    line, dot = of_class(figure, "chart-line")
    assert line.attrib["d"] == f"M5 {PLOT_HEIGHT / 2:g}L15 0"
    assert dot.attrib["d"] == f"M35 {PLOT_HEIGHT}h0"
    assert "chart-dot" in dot.attrib["class"]
    assert len(of_class(figure, "chart-column")) == 3


def test_each_period_with_a_value_is_a_link_with_its_numbers():
    figure = parsed(
        bar_chart("Runs", intervals(2), [Layer("succeeded", "ok", [1234, 0]), Layer("died", "dead", [0, 7])])
    )
    links = [each for each in figure.iter("a") if each.get("tabindex") == "-1"]
    assert [link.attrib["href"] for link in links] == ["/runs?q=0", "/runs?q=1"]
    assert [link.findtext("title") for link in links] == [
        "2026-11-22 12:00 UTC: ok 1,234",
        "2026-11-22 13:00 UTC: dead 7",
    ]


@pytest.mark.parametrize(
    ("largest", "unit", "labels"),
    [
        (0, "number", ["0", "1"]),
        (7, "number", ["0", "2", "4", "6", "8"]),
        (1_234, "number", ["0", "500", "1,000", "1,500"]),
        (0, "share", ["0 %", "0.5 %"]),
        (0.03, "share", ["0 %", "1 %", "2 %", "3 %"]),
        (1, "share", ["0 %", "50 %", "100 %"]),
        (0.2, "seconds", ["0", "50 ms", "100 ms", "150 ms", "200 ms"]),
        (1.7, "seconds", ["0", "0.5 s", "1 s", "1.5 s", "2 s"]),
        (2400, "seconds", ["0", "10 min", "20 min", "30 min", "40 min"]),
        (1e8, "seconds", ["0", "500 d", "1000 d", "1500 d"]),
    ],
)
def test_a_scale_has_few_round_numbers(largest: float, unit: Unit, labels: list[str]):
    scale = scale_of([None, largest], unit)
    assert [scale.label(tick) for tick in scale.ticks] == labels
    assert scale.top >= largest


@pytest.mark.parametrize("minutes", [1, 20, 60, 120, 1440])
def test_the_time_axis_has_few_labels_at_round_times(minutes: int):
    step = timedelta(minutes=minutes)
    columns = [Interval(MONDAY + place * step, MONDAY + (place + 1) * step) for place in range(90)]
    figure = parsed(bar_chart("Runs", columns, [Layer("succeeded", "ok", [1] * 90)]))
    labels = of_class(figure, "chart-time")
    assert 4 <= len(labels) <= 9
    assert all(("data-time" in label.attrib) == (minutes < 1440) for label in labels)


def test_names_are_text_and_never_markup():
    drawings = [
        bar_chart(HOSTILE, [Interval(NOON, NOON, HOSTILE)], [Layer("succeeded", HOSTILE, [1], HOSTILE, HOSTILE)]),
        sparkline(HOSTILE, [(3, 1)]),
    ]
    for drawing in drawings:
        assert not {"script", "onmouseover"} & {
            key for each in parsed(drawing).iter() for key in [each.tag, *each.attrib]
        }


# -- pages ------------------------------------------------------------------------------------------------------------


@pytest.fixture
async def client(database: str) -> AsyncIterator[Client]:
    client = Client(database)
    yield client
    await client.close()


def stored(database: str, query: str, *values: Any) -> Sequence[Any]:
    with psycopg.connect(database) as conn:
        row = conn.execute(query.encode(), values).fetchone()
        assert row is not None
        return row


def rollups(database: str, *, days: int = 2, job_types: int = 5) -> None:
    with psycopg.connect(database, autocommit=True) as conn:
        generate_rollups(conn, days=days, job_types=job_types)


def legend(page: str) -> dict[str, str]:
    return dict(re.findall(r'class="chart-key [^>]*>(.*?) <b>(.*?)</b>', page))


def numbers(page: str) -> list[list[int]]:
    """Of each row of the table: succeeded, cancelled, skipped, became dead, failed attempts."""
    rows = re.findall(r'<tr><th scope="row">.*?</tr>', page)
    return [[int(cell.replace(",", "")) for cell in re.findall(r'number">([\d,]+)</td>', row)[:5]] for row in rows]


@pytest.mark.parametrize(("period", "grain", "span"), [("week", "hour", "7 days"), ("90d", "day", "90 days")])
async def test_the_overview_shows_the_figures_of_the_rollups(
    client: Client, database: str, period: str, grain: str, span: str
):
    rollups(database, days=100)
    page = (await client.get("/", period=period)).text
    step = {"hour": "2 hours", "day": "1 day"}[grain]
    sums = stored(
        database,
        "select sum(succeeded), sum(cancelled), sum(skipped), sum(died), sum(failed + timed_out + crashed)"
        " from wakeboard.run_rollups where dimension = 'all' and grain = %s::wakeboard.rollup_grain"
        " and starts_at >= date_bin(%s, now(), 'epoch') + %s - %s::interval"
        " or dimension = 'all' and grain = 'hour' and %s = 'day' and starts_at >= date_bin('1 day', now(), 'epoch')",
        grain, step, step, span, grain,
    )  # fmt: skip
    assert legend(page)["succeeded"] == f"{sums[0]:,}"
    assert legend(page)["became dead"] == f"{sums[3]:,}"
    assert [sum(column) for column in zip(*numbers(page), strict=True)] == list(sums)
    assert f"({sums[4]:,})" in legend(page)["of attempts"]


async def test_the_overview_shows_the_backlog_to_those_who_see_everything(client: Client, database: str):
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute(
            "insert into wakeboard.backlog_samples"
            " select date_bin('1 minute', now(), 'epoch') - n * interval '1 minute', n"
            "   from generate_series(0, 1300) as n"
        )
    page = await client.get("/", period="day")
    assert legend(page.text)["most runs due"] == "1,300"
    assert "1,300" in "".join(re.findall(r'<tr><th scope="row">.*?</tr>', page.text)[-10:])
    other = Client(database, GrantedViewer(granted={"mine": VIEW}))
    try:
        assert "Backlog" not in (await other.get("/", period="day")).words
    finally:
        await other.close()


async def test_an_outage_shows_overdue_ticks_and_a_backlog_that_is_not_measured(client: Client, database: str):
    with schedules_in(database) as schedules:
        schedules.add("job")
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute("update wakeboard.job_definitions set next_run_at = now() - interval '3 hours'")
        conn.execute(
            "insert into wakeboard.backlog_samples select date_bin('1 minute', now(), 'epoch') - interval '3 hours', 7"
        )
    page = await client.get("/", period="day")
    assert [name for name in legend(page.text) if name.startswith("most runs due, not measured for ")]
    assert "What is due now includes 1 overdue tick that no worker or operator has enqueued yet." in page.words
    assert '<span class="tile-value">1</span><span class="tile-label">due now</span>' in page.text


async def test_the_page_of_a_schedule_shows_charts_of_its_runs(client: Client, database: str):
    with schedules_in(database) as schedules:
        schedules.add("job")
    rollups(database)
    (runs,) = stored(
        database,
        "select sum(succeeded) from wakeboard.run_rollups where dimension = 'schedule' and grain = 'hour'"
        " and name = '1' and starts_at > date_bin('1 hour', now(), 'epoch') - interval '24 hours'",
    )
    assert legend((await client.get("/schedules/1")).text)["succeeded"] == f"{runs:,}"
    assert (await client.get("/schedules/1", period="90d")).status == 200


async def test_every_link_of_a_chart_is_a_search_that_is_understood(client: Client, database: str):
    rollups(database)
    page = (await client.get("/performance", by="type", name="type1", period="hour")).text
    links: set[str] = {each.replace("&amp;", "&") for each in re.findall(r'href="(/runs\?[^"]*)"', page)}
    assert len(links) >= 59  # one for each minute at least; a link to failures where there were some
    for link in links:
        search = parse_run_search(dict(parse_qsl(urlsplit(link).query))["q"])
        assert search.problem == ""
        assert [value.text for term in search.of("type") for value in term.values] == ["type1"]
    assert (await client.get(max(links))).status == 200


async def test_the_table_is_in_the_order_that_is_asked_for(client: Client, database: str):
    rollups(database)
    for sort in ("name", "runs", "failures", "rate", "p50", "p95", "lateness"):
        await check_order(client, database, sort)


async def check_order(client: Client, database: str, sort: str) -> None:
    page = (await client.get("/performance", sort=sort, period="day")).text
    rows = re.findall(r"<tr><td class=\"performance-name\">.*?</tr>", page)
    names = [found[1] for row in rows if (found := re.search(r">(type\d+)<", row))]
    cells = [[unquote(cell) for cell in re.findall(r'data-label="[^"]*">([^<]*)<', row)] for row in rows]
    last_day = (
        "from wakeboard.run_rollups where dimension = 'job_type' and grain = 'hour'"
        " and starts_at > date_bin('1 hour', now(), 'epoch') - interval '24 hours'"
    )
    had_failures = f"select name {last_day} group by name having sum(failed + timed_out + crashed) > 0"
    (failing,) = stored(database, f"select count(*) from ({had_failures})")
    assert len(names) == (failing if sort == "failures" else 5)
    measured = {"runs": 0, "failures": 1, "rate": 2, "p50": 3, "p95": 4, "lateness": 5}
    if sort == "name":
        assert names == sorted(names)
    else:
        values = [float(row[measured[sort]].split()[0].replace(",", "")) for row in cells]
        assert values == sorted(values, reverse=True)
    ended = f"select sum(succeeded + cancelled + skipped + died) {last_day} and name = %s"
    (runs,) = stored(database, ended, names[0])
    assert cells[0][0] == f"{runs:,}"


async def test_a_viewer_of_a_namespace_sees_the_schedules_in_it_only(database: str):
    with schedules_in(database) as schedules:
        mine, other = schedules.add("mine", namespace="mine"), schedules.add("other", namespace="other")
    rollups(database)
    assert {mine, other} <= {1, 2, 3, 4, 5}  # the names of the generated figures
    client = Client(database, GrantedViewer(granted={"mine": VIEW}))
    try:
        await check_namespace(client, database, mine, other)
    finally:
        await client.close()


async def check_namespace(client: Client, database: str, mine: int, other: int) -> None:
    (runs,) = stored(
        database,
        "select sum(succeeded) from wakeboard.run_rollups where dimension = 'schedule' and grain = 'hour' and name = %s"
        " and starts_at > date_bin('1 hour', now(), 'epoch') - interval '24 hours'",
        str(mine),
    )

    assert legend((await client.get("/")).text)["succeeded"] == f"{runs:,}"
    assert ">Hour<" not in (await client.get("/", period="hour")).text
    table = await client.get("/performance", by="type")
    assert "mine/mine" in table.words
    assert "other" not in table.words
    assert "type1" not in table.words
    assert "Job types" not in table.words
    assert (await client.get("/performance", by="schedule", name=str(mine))).status == 200
    assert (await client.get("/performance", by="schedule", name=str(other))).status == 404
    assert (await client.get("/performance", by="queue", name="queue1")).status == 404


def count_one(database: str, grain: str, ago: timedelta, *, succeeded: int = 0, cancelled: int = 0) -> None:
    """Stores the figures of a period of a minute, an hour or a day."""
    with psycopg.connect(database) as conn:
        conn.execute(
            "insert into wakeboard.run_rollups (grain, starts_at, dimension, name, succeeded, cancelled, skipped,"
            " discarded, failed, timed_out, crashed, died)"
            " values (%s::wakeboard.rollup_grain, date_bin(%s::interval, now() - %s, 'epoch'), 'all', '', %s, %s,"
            " 0, 0, 0, 0, 0, 0)",
            (grain, f"1 {grain}", ago, succeeded, cancelled),
        )


@pytest.mark.parametrize(("minutes", "period"), [(0, "Hour"), (100, "Day"), (3 * 1440, "90 days"), (None, "Day")])
async def test_charts_begin_with_a_period_that_fits_the_figures(
    client: Client, database: str, minutes: int | None, period: str
):
    for grain in ("minute", "hour", "day") if minutes is not None else ():
        count_one(database, grain, timedelta(minutes=minutes or 0), succeeded=1)
    current = r'aria-current="true">([^<]*)</a>'
    assert re.findall(current, (await client.get("/")).text) == [period]
    assert re.findall(current, (await client.get("/", period="week")).text) == ["Week"]


async def test_a_drawing_has_times_in_the_viewers_zone(database: str, board: str, page: Page):
    rollups(database)
    await page.goto(f"{board}/?period=day")
    await page.locator("#live-state", has_text="live").wait_for()
    label = page.locator(".chart-time[data-time]").first
    shown, expected = await label.evaluate(
        "each => [each.textContent, new Date(each.dataset.time).toTimeString().slice(0, 5)]"
    )
    assert shown == expected
