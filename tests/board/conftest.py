"""Fixtures for tests of the board: a board that serves a database of the test's own, and Chromium."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from playwright.async_api import async_playwright

from testbed.board_server import serving
from tests.board.action_store import Store
from tests.board.asgi import Client
from wakeboard.board import BoardOptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from email.message import Message

    from playwright.async_api import Browser, BrowserContext, Page

CHROMIUM = Path("/usr/bin/chromium-headless-shell")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not CHROMIUM.exists() and not os.environ.get("CI"):
        for item in items:
            if "browser" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.skip(reason="Chromium is not installed; `make test-packages` brings it"))


@pytest.fixture
def board(database: str) -> Iterator[str]:
    """The address of a board for the database of the test."""
    with serving(BoardOptions(dsn=database)) as address:
        yield address


@pytest.fixture(scope="session")
async def browser(anyio_backend: str) -> AsyncIterator[Browser]:
    """Chromium without a window system: Debian's package. Its pages take a quarter of the CPU of `chromium`."""
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        await chromium.close()


@pytest.fixture
async def context(browser: Browser) -> AsyncIterator[BrowserContext]:
    """A browser profile of the test's own."""
    context = await browser.new_context()
    yield context
    await context.close()


@pytest.fixture
async def page(context: BrowserContext) -> Page:
    """A page in that profile."""
    return await context.new_page()


def fetched(url: str) -> tuple[int, Message, bytes]:
    """The status, headers and body that a GET from a page of the board answers, whatever the status is."""
    try:
        with urlopen(Request(url, headers={"Sec-Fetch-Site": "same-origin"})) as answer:
            return answer.status, answer.headers, answer.read()
    except HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


@pytest.fixture
async def store(database: str) -> AsyncIterator[Store]:
    """What a test of actions prepares and checks in the database."""
    made = Store(database)
    yield made
    made.conn.close()


@pytest.fixture
async def client(database: str) -> AsyncIterator[Client]:
    """A browser without a screen, of a viewer who may do everything."""
    made = Client(database)
    yield made
    await made.close()
