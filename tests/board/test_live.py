"""Open pages follow the store, survive a restart of the board, and do not delay its end."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import aiohttp
import psycopg
import pytest

from testbed.board_server import serving
from wakeboard.board import BoardOptions, change_feed
from wakeboard.board.change_feed import UpdateBudget

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator

    from playwright.async_api import BrowserContext, Page

pytestmark = pytest.mark.anyio


@contextmanager
def board_process(
    dsn: str, port: int = 0, *words: str, stderr: int | None = None, **settings: str
) -> Generator[tuple[subprocess.Popen[str], str]]:
    """`wakeboard board` as a process of its own. Yields it and its address."""
    command = [
        sys.executable,
        "-c",
        "from wakeboard.cli import main; main()",
        "--dsn",
        dsn,
        "board",
        "--port",
        str(port),
        *words,
    ]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        env={**os.environ, "WAKEBOARD_BOARD_LOGIN": "none", **settings},
    ) as process:
        assert process.stdout
        found = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
        assert found
        yield process, found[0]
        process.kill()


async def is_live(page: Page) -> None:
    await page.locator("#live-state[data-kind=on]").wait_for()


def enqueue(database: str, job_type: str = "send_mail") -> None:
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute("select wakeboard.enqueue(%s)", [job_type])


async def test_a_new_run_appears_without_a_reload(database: str, board: str, page: Page):
    await page.goto(board + "/runs")
    await is_live(page)

    enqueue(database)

    await page.get_by_text("send_mail").first.wait_for(timeout=5000)


@pytest.mark.parametrize(("listen", "said"), [(True, "updated at once"), (False, "updated each second")])
async def test_a_page_says_how_the_board_learns_of_changes(
    database: str, context: BrowserContext, *, listen: bool, said: str
):
    with serving(BoardOptions(dsn=database, listen=listen)) as address:
        for _ in range(2):  # the second tab joins a stream that is open
            page = await context.new_page()
            await page.goto(address)
            await page.locator("footer", has_text=said).wait_for()


@pytest.mark.parametrize(("cost_s", "least", "most"), [(0.0, 60, 60), (0.025, 60, 60), (0.1, 26, 32), (9.0, 5, 7)])
def test_updates_take_a_bounded_part_of_the_time(cost_s: float, least: int, most: int):
    """Each update of a minute costs so much; without a bound there would be 60."""
    now, used, updates = 100.0, 7.0, 0
    budget = UpdateBudget(now, used)
    while now < 160:
        now += budget.wait_s(now, used)
        used += cost_s
        updates += 1
        now += 1
    assert least <= updates <= most


@pytest.mark.parametrize("steps", range(6))
async def test_a_change_feed_ends_although_a_notification_arrives_at_that_moment(
    monkeypatch: pytest.MonkeyPatch, steps: int
):
    notified = asyncio.Event()

    async def notifications(_: str) -> AsyncIterator[None]:
        await notified.wait()
        yield
        await asyncio.Event().wait()

    monkeypatch.setattr(change_feed, "notifications", notifications)
    feed = change_feed.ChangeFeed("", listen=True, on_change=lambda: None, reading_s=lambda: 0.0)
    feed.subscribe(change_feed.Subscriber("ada"))
    await asyncio.sleep(0.01)
    notified.set()
    for _ in range(steps):  # of the event loop, between the notification and the end
        await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await feed.close()


async def test_a_terminated_board_does_not_wait_for_open_pages(database: str, context: BrowserContext):
    with board_process(database) as (process, address):
        for _ in range(3):
            page = await context.new_page()
            await page.goto(address)
            await is_live(page)

        process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(process.wait, 30)

    assert process.returncode in {0, -signal.SIGTERM}


async def test_a_page_says_that_the_board_is_away_and_recovers(database: str, page: Page):
    with board_process(database) as (_, address):
        await page.goto(address + "/runs")
        await is_live(page)
    await page.locator("#connection", has_text="does not answer").wait_for()

    enqueue(database)
    with board_process(database, port=int(address.rpartition(":")[2])):
        await page.locator("#connection").wait_for(state="hidden")
        await page.get_by_text("send_mail").first.wait_for()


@pytest.mark.parametrize("is_there", [True, False])
async def test_a_page_that_polls_is_live_only_while_the_board_answers(
    database: str, board: str, context: BrowserContext, *, is_there: bool
):
    page = await context.new_page()
    await page.add_init_script("delete window.SharedWorker")
    await page.clock.install()
    await page.goto(board)
    await page.locator("#live-state[data-kind=on]", has_text="polling every 10 s").wait_for()
    await context.set_offline(not is_there)
    await page.clock.run_for(45_000)
    await page.locator(f"#live-state[data-kind={'on' if is_there else 'silent'}]").wait_for()


async def test_a_stream_says_that_the_board_is_alive(board: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(change_feed, "HEARTBEAT_S", 0.05)
    async with aiohttp.ClientSession() as session, session.get(f"{board}/events") as answer:
        while b"event: alive" not in (line := await answer.content.readline()):
            assert line
