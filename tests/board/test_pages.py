"""Every page loads without errors in a real browser, and asks no other origin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = pytest.mark.anyio

PAGES = [
    "/",
    "/runs",
    "/runs?q=type:send_mail+colour:red",
    "/runs/1",
    "/runs/1/cancel",
    "/bulk/cancel?q=status:queued",
    "/schedules",
    "/calendar",
    "/calendar?view=week",
    "/performance",
    "/performance?name=send_mail",
    "/alerts",
    "/limits",
    "/audit",
    "/audit?action=cancel",
    "/bulk",
]


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_shows_without_errors_and_requests_to_other_origins(
    database: str, board: str, page: Page, path: str
):
    enqueue(database)
    messages: list[str] = []
    requested: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("request", lambda request: requested.append(request.url))

    await page.goto(board + path)
    await page.locator("#live-state", has_text="live").wait_for()

    assert await page.locator("main h1").inner_text()
    assert messages == []
    assert all(url.startswith(board) for url in requested), requested


def enqueue(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute("select wakeboard.enqueue('send_mail')")
