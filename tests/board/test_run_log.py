"""The page of a run's log: its end at once, older lines, a search, and new lines as they come."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING

import pytest

from testbed.board_server import serving
from tests.board.conftest import fetched
from tests.board.past_runs import worker_of
from tests.board.test_pages import accessibility_problems
from wakeboard.board import BoardOptions
from wakeboard.logs.queries import store_batches
from wakeboard.logs.rules import OUTCOME, Batch, Line, packed
from wakeboard.store.connection import connect_blocking

if TYPE_CHECKING:
    from collections.abc import Sequence

    from playwright.async_api import Page

    from tests.store.sql_clients import SqlClient

pytestmark = pytest.mark.anyio

HOSTILE = "<script>alert(1)</script> \x1b[2J \u202eevil"
BATCH = 1_000
SCROLLED = """() => new Promise(done => {
  const log = document.getElementById("log")
  log.scrollTop > 0 ? done() : log.addEventListener("scroll", () => done(), {once: true})
})"""
PLACES = "cells => cells.map(cell => cell.getBoundingClientRect()).map(({x, y}) => [x, y])"
TIMES = """
[...document.querySelectorAll(".log-beside tbody tr")].map((row) => [...row.querySelectorAll("td")].map(
  (cell) => [...cell.querySelectorAll(".log-time")].map((time) => Number(time.textContent))))
"""  # of the lines in each cell of each row, in seconds


def log(worker: SqlClient, run_id: int, lines: Sequence[Line], epoch: int = 5) -> None:
    """Stores lines of the log of an attempt."""
    uuid = worker.value("select uuid from job_runs where id = %s", run_id)
    batches: list[tuple[Batch, int, int]] = []
    for first in range(0, len(lines), BATCH):
        part = lines[first : first + BATCH]
        level = max(line.level for line in part)
        batch = Batch(
            str(uuid), epoch, 1, part[0].number, part[0].number, part[-1].number, level, part[0].at, packed(part)
        )
        batches.append((batch, 0, 0))
    with connect_blocking(worker.dsn) as conn:
        store_batches(conn, batches)


async def test_a_long_log_is_shown_searched_and_followed(database: str, page: Page) -> None:
    now = time.time()
    with worker_of(database) as worker, serving(BoardOptions(dsn=database)) as board:
        run_id = worker.enqueue()
        lease = worker.claims(run_id)
        path = f"{board}/runs/{run_id}/log"
        assert "It has logged nothing that is kept" in fetched(path)[2].decode()
        lines = [Line(number, now, 20, "shop", f"item {number} is done") for number in range(1, 20_001)]
        lines[41] = Line(42, now, 40, "bank", f"the needle {HOSTILE}")
        lines[-3:-2] = []
        log(worker, run_id, lines)

        assert "item 20000 is done" in fetched(path + "?level=info")[2].decode()
        body = fetched(path + "?q=NEEDLE")[2].decode()
        assert "&lt;script&gt;alert(1)" in body
        assert "\x1b" not in body

        problems: list[str] = []
        page.on("pageerror", lambda problem: problems.append(str(problem)))
        await page.set_viewport_size({"width": 360, "height": 740})
        await page.goto(path)
        await page.locator("#L20000").wait_for()
        assert await page.evaluate("log.scrollTop + log.clientHeight >= log.scrollHeight - 1")
        assert await page.locator(".log-gap").inner_text() == "1 line was not kept"
        assert await page.evaluate("document.documentElement.scrollWidth") == 360
        log(worker, run_id, [Line(20_001, now + 1, 30, "shop", "a new line")])
        await page.locator("#L20001").wait_for(timeout=10_000)
        assert "+1.000" in await page.locator("#L20001").inner_text()
        await page.locator("a[rel=prev]").click()
        await page.locator("#L19400").wait_for()
        await page.goto(f"{path}?level=error")
        assert await page.locator(".log-line").count() == 1
        assert await page.locator(".log-error b").inner_text() == "error"

        error = [Line(1, now, 20, "shop", "x"), Line(2, now, 40, OUTCOME, "failed: ValueError: no such customer")]
        log(worker, run_id, error, epoch=lease.epoch)
        worker.fail(lease, error_type="ValueError", error="no such customer")
        await page.goto(f"{board}/runs/{run_id}")
        await page.get_by_role("link", name="In the log").click()
        await page.locator("#L2:has(:target)").wait_for()
        assert await page.locator(".log-line").count() == 2
        assert "It has logged nothing that is kept" in fetched(path + "?attempt=1")[2].decode()
        assert problems == []


async def test_a_search_says_how_far_it_went_and_goes_on(database: str, page: Page) -> None:
    with worker_of(database) as worker, serving(BoardOptions(dsn=database)) as board:
        run_id = worker.enqueue()
        worker.claims(run_id)
        lines = [Line(number, 1.8e9, 20, "shop", f"item {number}") for number in range(1, 250_001)]
        lines[4] = Line(5, 1.8e9, 20, "shop", "the needle")
        log(worker, run_id, lines)

        await page.goto(f"{board}/runs/{run_id}/log?q=needle")
        nothing = await page.locator("p.empty").inner_text()
        assert re.fullmatch(r"No line matches down to line \d\d,\d+. Older lines have not been searched.", nothing)
        await page.get_by_role("link", name="Search before line").click()
        await page.locator("#L5").wait_for()
        assert await page.locator("a[rel=prev]").count() == 0
        await page.goto(f"{board}/runs/{run_id}/log?q=haystack&before=9")
        assert await page.locator("p.empty").inner_text() == "No line matches before line 9."

        path = f"{board}/api/v1/runs/{run_id}/log?q=needle"
        first = json.loads(fetched(path)[2])
        assert first["items"] == []
        second = json.loads(fetched(f"{path}&after={first['next']}")[2])
        assert [item["number"] for item in second["items"]] == [5]
        assert second["next"] is None


async def test_two_attempts_stand_side_by_side_aligned_by_time(database: str, page: Page) -> None:
    with worker_of(database) as worker, serving(BoardOptions(dsn=database)) as board:
        run_id = worker.enqueue(max_attempts=3)
        epochs: list[int] = []
        # The second attempt is silent for five seconds, and then half as fast.
        for count, silence, pause in ((1_000, 0.0, 0.01), (20_000, 5.0, 0.02)):
            lease = worker.claims(run_id)
            began = worker.value("select extract(epoch from started_at)::float8 from job_runs where id = %s", run_id)
            numbers = range(1, count + 1)
            times = {number: began + silence + number * pause for number in numbers}
            log(worker, run_id, [Line(each, times[each], 20, "shop", f"item {each}") for each in numbers], lease.epoch)
            epochs.append(lease.epoch)
            if count == 1_000:
                worker.fail(lease, delay_s=0)
        path = f"{board}/runs/{run_id}/log?attempt={epochs[0]}&beside={epochs[1]}"
        body = fetched(path)[2]
        assert len(body) < 1_000_000
        assert body.count(b'class="log-line ') == 1_000

        await page.set_viewport_size({"width": 1280, "height": 720})
        await page.goto(f"{board}/runs/{run_id}/log?attempt={epochs[0]}")
        await page.get_by_label("Beside it").select_option(str(epochs[1]))
        await page.get_by_role("button", name="Show").click()
        await page.get_by_text("500 lines beside 500 lines of the same time, and there are more").wait_for()
        rows: list[tuple[list[float], list[float]]] = await page.evaluate(TIMES)
        assert rows[0][0][0] == pytest.approx(5.01)  # line 501, because 500 are shown
        assert rows[0][1][0] == pytest.approx(5.02)
        assert all(abs(left[0] - right[0]) < 1 for left, right in rows if left and right)
        await page.get_by_role("link", name="Older lines").click()
        await page.locator("#L500").wait_for()
        assert await page.locator("[id^=B]").count() == 0

        await page.goto(path)
        await page.locator("#log").focus()
        await page.keyboard.press("End")
        await page.evaluate(SCROLLED)
        assert await accessibility_problems(page, ["light", "dark"]) == []
        await page.set_viewport_size({"width": 360, "height": 740})
        assert await page.evaluate("document.documentElement.scrollWidth") == 360
        # Both places in one call: the page still scrolls, and a place counts from the top of the window.
        places: list[tuple[float, float]] = await page.locator("tr:has(#L501) td").evaluate_all(PLACES)
        (left, first), (beside, second) = places
        assert left == beside  # one under the other
        assert first < second
