"""Actions in a real browser: by keyboard alone, in a dialog, with messages and the place on the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from testbed.board_server import serving
from tests.board.asgi import AccessOf, GrantedViewer
from wakeboard.board import BoardOptions

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

    from tests.board.action_store import Store

pytestmark = pytest.mark.anyio


async def test_find_open_retry_and_confirm_by_keyboard_alone(board: str, store: Store, page: Page):
    (run,) = store.dead_runs(1)
    await page.goto(board + "/runs")
    await page.keyboard.press("/")
    await page.keyboard.type("status:dead")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/runs?q=status*")
    await page.locator("#live-state", has_text="live").wait_for()
    await page.keyboard.press("j")
    while await page.evaluate("document.activeElement.tagName") != "A":
        await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"**/runs/{run}")

    retry = page.get_by_role("link", name="Retry")
    await retry.focus()
    await page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name=f"Retry run {run}?")
    await dialog.wait_for()
    await page.keyboard.press("Escape")
    await dialog.wait_for(state="hidden")
    assert await page.evaluate("document.activeElement.textContent") == "Retry"  # the focus returns
    await page.keyboard.press("Enter")
    await dialog.wait_for()
    await page.keyboard.type('the disk is back <b>"')
    await page.keyboard.press("Enter")
    await page.get_by_text(f"Run {run} is queued again, due now.").wait_for()

    assert page.url.endswith(f"/runs/{run}")
    assert store.status(run) == "queued"
    assert store.audit()[-1][2:] == ("retry", 'the disk is back <b>"')
    await page.reload()
    assert await page.get_by_text("is queued again, due now.").count() == 0
    assert 'the disk is back <b>"' in await page.locator("main").inner_text()


async def test_a_bad_payload_stays_in_its_dialog(board: str, store: Store, page: Page):
    run = store.run("cancelled")
    await page.goto(f"{board}/runs/{run}")
    await page.get_by_role("link", name="Edit payload and run again").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Payload").fill("{broken")
    await dialog.get_by_role("button", name="Replay run").click()
    await dialog.get_by_role("alert").wait_for()
    assert page.url.endswith(f"/runs/{run}")
    assert await dialog.get_by_label("Payload").input_value() == "{broken"

    await dialog.get_by_label("Payload").fill('{"customer": 1}')
    await dialog.get_by_role("button", name="Replay run").click()
    await page.get_by_role("link", name="run").first.wait_for()
    await page.locator(".message").wait_for()
    assert store.value("select payload->>'customer' from job_runs") == "1"


async def test_actions_work_without_javascript(database: str, store: Store, browser: Browser):
    (run,) = store.dead_runs(1)
    with serving(BoardOptions(dsn=database, access=AccessOf(GrantedViewer("ada")))) as address:
        context = await browser.new_context(java_script_enabled=False)
        page = await context.new_page()
        await page.goto(f"{address}/runs/{run}")
        await page.get_by_role("link", name="Retry").click()
        await page.get_by_label("Reason (optional)").fill("why not")
        await page.get_by_role("button", name="Retry run").click()
        await page.get_by_text(f"Run {run} is queued again, due now.").wait_for()
        await context.close()

    assert store.audit() == [("ada", "board", "retry", "why not")]
