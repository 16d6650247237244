"""The page of the list of runs, as HTML and in a browser."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import psycopg
import pytest

from tests.board.conftest import fetched
from wakeboard.board.pages.runs import run_list
from wakeboard.views.queries.run_counts import Count
from wakeboard.views.rules.run_search import STATUSES, parse_run_search

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = pytest.mark.anyio


def enqueue(database: str, count: int = 1, job_type: str = "send_mail") -> None:
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute("select wakeboard.enqueue(%s) from generate_series(1, %s)", [job_type, count])


PAST_RUN = (
    "insert into job_run_history (id, uuid, scheduled_for, run_at, created_at, started_at, finished_at, locked_by,"
    " lease_epoch, status, trigger, backoff_strategy, backoff_base_s, backoff_cap_s, timeout_s, attempts,"
    " max_attempts, crash_count, release_count, priority, queue, job_type, payload)"
    " select %(id)s, gen_random_uuid(), now(), now(), now(), now() - make_interval(secs => %(seconds)s), now(), 1, 1,"
    " 'succeeded', 'application', 'fixed', 1, 1, 600, 1, 5, 0, 0, 3, 'default', 'a', '{}'"
)


def runs_page(board: str, **query: str) -> str:
    status, _, body = fetched(f"{board}/runs?{urlencode(query)}")
    assert status == 200
    return body.decode()


def test_a_search_that_means_nothing_is_explained_and_the_list_stays(database: str, board: str):
    enqueue(database)

    html = runs_page(board, q="type:send_mail colour:red")

    assert "there is no qualifier &#34;colour&#34;" in html
    assert 'value="type:send_mail colour:red"' in html
    assert "1 run, newest first" in html


def test_runs_are_listed_by_due_time_and_by_duration(database: str, board: str):
    """Runs 1 to 3 are due in another order than they were enqueued; 4 to 6 have ended."""
    with psycopg.connect(database, autocommit=True) as conn:
        for hours, options in ((2, ""), (1, ", limit_key => 'bank'"), (3, ", priority => 5")):
            conn.execute(f"select wakeboard.enqueue('a', run_at => now() + interval '{hours} hours'{options})".encode())
        conn.execute("set search_path = wakeboard")
        for run, seconds in ((4, 5), (5, 500), (6, 50)):
            conn.execute(PAST_RUN, {"id": run, "seconds": seconds})

    due, longest = runs_page(board, sort="due"), runs_page(board, sort="longest")

    assert shown(due) == [2, 1, 3]
    assert "due first, of the first 1,000 of each queue and priority" in due
    assert shown(longest)[:3] == [5, 6, 4]
    assert "longest first, of the newest 500" in longest
    assert shown(runs_page(board, q="status:succeeded", sort="due")) == []
    assert shown(runs_page(board, q="limit:bank", sort="due")) == [2]


def shown(html: str) -> list[int]:
    """The ids of the listed runs."""
    return [int(run) for run in dict.fromkeys(re.findall(r'<a[^>]* href="[^"]*/runs/(\d+)"', html))]


def test_no_search_reveals_a_masked_value(database: str, board: str):
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute("""select wakeboard.enqueue('send_mail', '{"smtp": {"host": "a", "password": "hunter2"}}')""")

    assert "1 run, newest first" in runs_page(board, q="payload.smtp.host:a")
    for guess in ("hunter*", "zzz*"):
        assert "cannot be searched" in runs_page(board, q=f"payload.smtp.password:{guess}")
        assert "No run matches." in runs_page(board, q=f"payload.smtp:*{guess}")


def test_the_number_of_a_run_finds_it_however_old_it_is(database: str, board: str):
    enqueue(database, 3)

    assert "/runs/2" in runs_page(board, q="2")
    assert "Go to run 2" in runs_page(board, q="2")
    assert "Go to run" not in runs_page(board, q="4")


def test_a_search_that_takes_too_long_keeps_the_box_and_claims_nothing():
    search = parse_run_search("error:x")
    model = run_list("error:x", search, None, dict.fromkeys(STATUSES, Count(0, more=True)), "", None)

    assert model.text == "error:x"
    assert model.stopped
    assert model.problem.startswith("The search took too long and was stopped")
    assert [tab.count.more for tab in model.tabs] == [True] * 9


async def test_a_suggestion_is_chosen_by_keyboard_and_the_search_runs(database: str, board: str, page: Page):
    enqueue(database)
    enqueue(database, job_type="import_rates")
    await page.goto(board + "/runs")
    box = page.get_by_role("combobox", name="Search runs")

    await box.press_sequentially("ty")
    await page.get_by_role("option", name="type:").wait_for()
    await box.press("ArrowDown")
    await box.press("Enter")
    await page.get_by_role("option", name="type:send_mail").wait_for()
    await box.press_sequentially("se")
    await page.get_by_role("option", name="type:import_rates").wait_for(state="detached")
    await box.press("ArrowDown")
    await box.press("Enter")
    assert await box.input_value() == "type:send_mail "
    await box.press("Enter")

    await page.wait_for_url("**/runs?q=type%3Asend_mail*")
    assert "send_mail" in await page.locator("#live tbody").inner_text()
    assert "import_rates" not in await page.locator("#live tbody").inner_text()


async def test_a_live_update_keeps_text_focus_and_open_help(database: str, board: str, page: Page):
    enqueue(database)
    await page.goto(board + "/runs")
    await page.locator("#live-state", has_text="live").wait_for()
    await page.get_by_text("How to search").click()
    box = page.get_by_role("combobox", name="Search runs")
    await box.fill("status:dead zz")
    await box.evaluate("box => box.setSelectionRange(3, 5)")

    enqueue(database, job_type="another_type")
    await page.locator("#live").get_by_text("another_type").wait_for(timeout=5000)

    state = "document.activeElement.id + document.activeElement.selectionStart + document.activeElement.selectionEnd"
    assert await page.evaluate(state) == "run-search35"
    assert await box.input_value() == "status:dead zz"
    assert await page.locator("details.run-search-help").get_attribute("open") is not None
