"""Every page loads without errors, asks no other origin, is accessible in each look, and fits a phone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, cast

import psycopg
import pytest
from axe_playwright_python.base import AXE_SCRIPT  # pyright: ignore[reportMissingTypeStubs]

from tests.board.schedules import schedules_in

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

PAGES: Final = [
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
    "/effects",
    "/audit",
    "/audit?action=cancel",
    "/bulk",
    "/backfills",
]
OTHERS: Final = ["/schedules/1", "/bulk/1", "/limits/set", "/runs/2"]
OF_COLOURS: Final = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
LOOKS: Final[dict[str, tuple[dict[str, str], dict[str, Any]]]] = {  # what the browser prefers, and what axe checks then
    "light": ({"color_scheme": "light", "forced_colors": "none"}, {}),
    "dark": ({"color_scheme": "dark", "forced_colors": "none"}, OF_COLOURS),
    "forced colours": ({"color_scheme": "dark", "forced_colors": "active"}, OF_COLOURS),
}
EVERY_LOOK: Final = ("/", "/runs", "/runs/1", "/schedules/1", "/calendar")  # all that has a colour is on one of these
PHONE: Final[Any] = {"width": 360, "height": 740}
DESKTOP: Final[Any] = {"width": 1280, "height": 720}
CUT_OFF: Final = """
[...document.querySelectorAll(".table-scroll")].some(
  (table) => !table.closest("details:not([open])") && table.scrollWidth > table.clientWidth + 1)
"""
FIRE: Final = """
select wakeboard.record_alert(
         %s, evaluated_at, true, '3 runs are dead', 3, '{send_mail: Timeout (3)}', 'open', '{team}')
  from wakeboard.alert_rules where name = %s
"""


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
        conn.execute("select setval('wakeboard.job_runs_id_seq', 12345678)")  # a row with long texts
        conn.execute("select wakeboard.enqueue('send_mail')")
        conn.execute("select wakeboard.cancel('{12345679}')")
        conn.execute(
            "update wakeboard.job_run_history set started_at = now() - interval '9 hours',"
            " finished_at = now() - interval '59 minutes' where id = 12345679"
        )
        conn.execute("update wakeboard.alerts set resolved_at = now(), resolution = 'recovered' where rule = 'info'")


@pytest.mark.parametrize("part", [0, 1])
async def test_no_page_has_errors_foreign_requests_or_accessibility_problems(
    database: str, board: str, page: Page, part: int
):
    """Each page is loaded once, as on a phone. Only colours differ between light, dark and forced colours; a search
    or a filter brings none."""
    fill(database)
    found: list[str] = []
    page.on("console", lambda message: found.append(f"{page.url}: {message.text}"))
    page.on("pageerror", lambda error: found.append(f"{page.url}: {error}"))
    page.on("request", lambda request: None if request.url.startswith(board) else found.append(request.url))
    for path in [*PAGES, *OTHERS][part::2]:
        await page.set_viewport_size(PHONE)
        await page.goto(board + path)
        await page.locator("#live-state", has_text="live").wait_for()
        assert await page.locator("main h1").inner_text()
        if await page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            found.append(f"{path} scrolls sideways")
        if await page.evaluate(CUT_OFF):
            found.append(f"a table of {path} is cut off")
        await page.set_viewport_size(DESKTOP)
        looks = list(LOOKS) if path in EVERY_LOOK else ["light"] if "?" in path else ["light", "dark"]
        found += [f"{path}, {problem}" for problem in await accessibility_problems(page, looks)]

    assert found == []


async def accessibility_problems(page: Page, looks: list[str]) -> list[str]:
    """The serious ones in these looks: the look, the rule and the first element."""
    await page.evaluate(AXE_SCRIPT)
    found: list[str] = []
    for look in looks:
        preferred, options = LOOKS[look]
        await page.emulate_media(**cast("Any", preferred))
        results = await page.evaluate("options => axe.run(options)", {"resultTypes": ["violations"], **options})
        found += [
            f"{look}: {problem['id']}: {problem['nodes'][0]['html'][:200]}"
            for problem in results["violations"]
            if problem["impact"] in {"serious", "critical"}
        ]
    return found
