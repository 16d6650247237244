"""Fixtures for tests of the board: a board that serves a database of the test's own, and Chromium."""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
import uvicorn
from playwright.async_api import async_playwright

from tests.board.action_store import Store
from tests.board.asgi import Client
from wakeboard.board import BoardOptions
from wakeboard.board.server import BoardServer, listening_socket

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
    from email.message import Message

    from playwright.async_api import Browser, BrowserContext, Page
    from starlette.types import ASGIApp

CHROMIUM = Path("/usr/bin/chromium")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not CHROMIUM.exists() and not os.environ.get("CI"):
        for item in items:
            if "browser" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.skip(reason="Chromium is not installed; `make test-packages` brings it"))


@contextmanager
def serving(options: BoardOptions) -> Generator[str]:
    """Serves a board on a free port of loopback inside the block. Yields its address, without a trailing slash."""
    server = BoardServer(options, listening_socket("127.0.0.1", 0), handles_signals=False)
    with _in_a_thread(server, server.run_until_stopped):
        yield server.address.rstrip("/")


@contextmanager
def serving_application(application: ASGIApp) -> Generator[str]:
    """As `serving`, for any application."""
    listener = listening_socket("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(application, log_level="critical", timeout_graceful_shutdown=1, ws="none"))
    with _in_a_thread(server, lambda: server.serve([listener])):
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    listener.close()


@contextmanager
def _in_a_thread(server: uvicorn.Server, serve: Callable[[], Coroutine[Any, Any, None]]) -> Generator[None]:
    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        while not server.started and thread.is_alive():
            thread.join(0.01)
        yield
    finally:
        server.handle_exit(0, None)
        thread.join(10)
        assert not thread.is_alive()


@pytest.fixture
def board(database: str) -> Iterator[str]:
    """The address of a board for the database of the test."""
    with serving(BoardOptions(dsn=database)) as address:
        yield address


@pytest.fixture(scope="session")
async def browser(anyio_backend: str) -> AsyncIterator[Browser]:
    """Chromium: Debian's package, whose version fits the locked Playwright."""
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
    """The status, headers and body that a GET answers, whatever the status is."""
    try:
        with urlopen(url) as answer:
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
