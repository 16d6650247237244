"""Every page can be used by keyboard alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = pytest.mark.anyio


async def test_a_question_mark_lists_the_keys_and_escape_returns_the_focus(board: str, page: Page):
    await page.goto(board + "/")
    await page.locator("#show-keys").focus()
    await page.keyboard.press("?")
    await page.get_by_role("dialog", name="Keys").wait_for()

    await page.keyboard.press("Escape")

    assert not await page.locator("#keys").is_visible()
    assert await page.evaluate("document.activeElement.id") == "show-keys"


async def test_the_theme_is_kept_and_follows_the_system_by_default(board: str, page: Page):
    await page.goto(board + "/")
    assert await page.evaluate("document.documentElement.dataset.theme") is None
    await page.keyboard.press("t")
    await page.keyboard.press("t")

    await page.reload()

    assert await page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert await page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 20, 25)"
