"""Pages have no serious accessibility problem in light, dark and forced colours, and fit a phone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, cast

import psycopg
import pytest
from axe_playwright_python.async_playwright import Axe  # pyright: ignore[reportMissingTypeStubs]

from tests.board.schedules import schedules_in
from tests.board.test_pages import PAGES

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.anyio

OF_COLOURS: Final = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
LOOKS: Final[dict[str, tuple[dict[str, str], dict[str, Any]]]] = {  # what the browser prefers, and what axe checks then
    "light": ({"color_scheme": "light", "forced_colors": "none"}, {}),
    "dark": ({"color_scheme": "dark", "forced_colors": "none"}, OF_COLOURS),
    "forced colours": ({"color_scheme": "dark", "forced_colors": "active"}, OF_COLOURS),
}
PHONE = {"viewport": {"width": 360, "height": 740}, "reduced_motion": "reduce"}


def fill(database: str) -> None:
    """One run of each kind that the pages show, a schedule, and alerts of a rule that has drifted."""
    with schedules_in(database) as schedules:
        schedules.add("job", "*/5 * * * *", time_zone="Europe/Lisbon")
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute("select wakeboard.enqueue('send_mail', jsonb_build_object('to', 'ada', 'password', 'x'))")
        conn.execute("select wakeboard.enqueue('send_mail', run_at => now() + interval '1 hour')")
        conn.execute("select wakeboard.cancel('{2}', 'not wanted')")
        conn.execute("select wakeboard.set_limit('openai', 5)")
        conn.execute("select wakeboard.pause('queue:default', 'the bank is closed')")
        conn.execute("select wakeboard.create_bulk_action('cancel', '{1}', 'type:send_mail', 'not wanted')")
        for severity in ("critical", "warning", "info"):
            rule = {"name": severity, "severity": severity, "interval_s": 60, "definition": {"dead": 1}}
            conn.execute("select wakeboard.claim_alert_rules(%s)", [json.dumps([rule])])
            conn.execute(FIRE, [severity, severity])
            conn.execute("select wakeboard.claim_alert_rules(%s)", [json.dumps([rule | {"definition": {"dead": 5}}])])
        conn.execute("update wakeboard.alerts set resolved_at = now(), resolution = 'recovered' where rule = 'info'")


FIRE = """
select wakeboard.record_alert(
         %s, evaluated_at, true, '3 runs are dead', 3, '{send_mail: Timeout (3)}', 'open', '{team}')
  from wakeboard.alert_rules where name = %s
"""
OTHERS = ["/schedules/1", "/bulk/1", "/limits/set", "/runs/2"]


@pytest.mark.parametrize("part", [0, 1])
async def test_no_page_has_a_serious_accessibility_problem(database: str, board: str, browser: Browser, part: int):
    """In light, dark and forced colours; only colours differ between these."""
    fill(database)
    context = await browser.new_context()
    page = await context.new_page()
    found: list[str] = []
    for path in [*PAGES, *OTHERS][part::2]:
        await page.goto(board + path)
        for look, (preferred, options) in LOOKS.items():
            await page.emulate_media(**cast("Any", preferred))
            results: Any = await cast("Any", Axe()).run(page, options=options)
            found += [
                f"{path}, {look}: {problem['id']}: {problem['nodes'][0]['html'][:200]}"
                for problem in results.response["violations"]
                if problem["impact"] in {"serious", "critical"}
            ]
    await context.close()

    assert found == []


async def test_no_page_scrolls_sideways_on_a_phone(database: str, board: str, browser: Browser):
    fill(database)
    context = await browser.new_context(**cast("Any", PHONE))
    page = await context.new_page()
    wide: list[str] = []
    for path in [*PAGES, *OTHERS]:
        await page.goto(board + path)
        if await page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            wide.append(path)
    await context.close()

    assert wide == []
