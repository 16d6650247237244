"""The board works under any path: mounted in an application, and behind proxies that strip the path or keep it."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from testbed.board_server import serving, serving_application
from wakeboard.board import BoardOptions, app

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from playwright.async_api import Page
    from starlette.types import ASGIApp, Receive, Scope, Send

pytestmark = pytest.mark.anyio

PREFIX = "/tools/wakeboard"


def mounted(dsn: str) -> ASGIApp:
    board = app(BoardOptions(dsn=dsn))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with board.router.lifespan_context(board):  # Starlette does not run that of a mounted application
            yield

    return Starlette(routes=[Mount(PREFIX, board)], lifespan=lifespan)


def keeping_proxy(dsn: str) -> ASGIApp:
    return app(BoardOptions(dsn=dsn, prefix=PREFIX))


def stripping_proxy(dsn: str) -> ASGIApp:
    board = app(BoardOptions(dsn=dsn, prefix=PREFIX))

    async def strip(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            assert scope["path"].startswith(PREFIX), scope["path"]
            scope = {**scope, "path": scope["path"].removeprefix(PREFIX) or "/"}
        await board(scope, receive, send)

    return strip


@pytest.mark.parametrize("application", [mounted, keeping_proxy, stripping_proxy])
async def test_links_assets_and_streams_stay_under_the_prefix(database: str, page: Page, application: Any):
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    with serving_application(application(database)) as address:
        await page.goto(f"{address}{PREFIX}")
        await page.locator("#live-state[data-kind=on]").wait_for()
        links = await page.eval_on_selector_all("a[href], form[action]", "all => all.map(e => e.href || e.action)")
        await page.get_by_role("link", name="Runs", exact=True).click()
        await page.wait_for_url(f"**{PREFIX}/runs")

    inside = re.compile(re.escape(f"{address}{PREFIX}") + "([/#]|$)")
    assert [url for url in [*requested, *links] if not inside.match(url)] == []


async def test_without_javascript_lists_and_runs_can_be_read(database: str, browser: Any):
    import psycopg

    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute("select wakeboard.enqueue('send_mail')")
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    with serving(BoardOptions(dsn=database)) as address:
        await page.goto(address + "/")
        await page.get_by_role("link", name="Runs", exact=True).click()
        await page.get_by_role("link", name="1", exact=True).first.click()
        await page.wait_for_url("**/runs/1")

        shown = await page.locator("main board-time").first.inner_text()
        assert shown == "now" or shown.endswith(" ago")
        assert "UTC" in (await page.locator("main board-time").first.get_attribute("title") or "")
    await context.close()
