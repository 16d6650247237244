"""Takes a screenshot of every page of the web board: `make screenshots`. Look at each after a change of a page.

It starts an embedded Postgres of its own with generated schedules and runs, and writes pictures of light and dark
pages, of a phone and of forced colours to build/screenshots/<situation>/. Situations: `busy` (a normal day), `outage`
(nothing runs), `empty`, and `many` (10,000 schedules). `--docs` writes the pictures of docs/board.md to docs/board/.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psycopg
from playwright.sync_api import sync_playwright
from psycopg.conninfo import make_conninfo

from testbed.board_server import serving
from testbed.generated_rollups import generate_rollups
from testbed.generated_runs import fill
from wakeboard.board import BoardOptions
from wakeboard.local.postgres import EmbeddedPostgres
from wakeboard.rules.cron_parser import parse_cron
from wakeboard.rules.dst_ticks import dst_ticks_for
from wakeboard.store.migrate import migrate

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT: Final = Path(__file__).resolve().parents[1]
BUILD: Final = ROOT / "build" / "screenshots"
DOCS: Final = ROOT / "docs" / "board"
CHROMIUM: Final = Path("/usr/bin/chromium-headless-shell")
LOOKS: Final[dict[str, dict[str, Any]]] = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 900}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 900}},
    "phone": {"color_scheme": "light", "viewport": {"width": 360, "height": 800}},
    "forced": {"forced_colors": "active", "color_scheme": "dark", "viewport": {"width": 1280, "height": 900}},
}
SITUATIONS: Final[dict[str, dict[str, int]]] = {
    "busy": {"history": 20_000, "live": 25, "schedules": 12},
    "outage": {"history": 5_000, "live": 20_000, "schedules": 36},
    "many": {"history": 50_000, "live": 1_000, "schedules": 10_000},
    "empty": {},
}
PAGES: Final = {
    "overview": "/",
    "schedules": "/schedules",
    "schedule": "/schedules/1",
    "calendar": "/calendar",
    "calendar-week": "/calendar?view=week",
    "runs": "/runs",
    "runs-dead": "/runs?q=status:dead",
    "run": "/runs/{run}",
    "run-dead": "/runs/{dead}",
    "audit": "/audit",
    "limits": "/limits",
    "performance": "/performance",
    "alerts": "/alerts",
    "backfills": "/backfills",
    "bulk-actions": "/bulk",
    "bulk-retry": "/bulk/retry?q=status:dead",
    "replay": "/runs/{run}/replay",
    "run-now": "/schedules/1/run",
}
IN_DOCS: Final = {
    "light": ("overview", "schedules", "run-dead"),
    "dark": ("calendar-week", "runs"),
}
# (namespace, name, cron expression, time zone, job type)
SCHEDULES: Final = (
    ("billing", "close-day", "5 0 * * *", "Europe/Lisbon", "charge_card"),
    ("billing", "send-invoices", "30 6 * * 1-5", "Europe/Lisbon", "send_mail"),
    ("billing", "reconcile", "0 */4 * * *", "Etc/UTC", "sync_orders"),
    ("billing", "dunning", "0 9 * * 2", "America/New_York", "send_mail"),
    ("ops", "clean-up", "15 3 * * *", "Etc/UTC", "sync_orders"),
    ("ops", "rotate-keys", "0 4 1 * *", "Etc/UTC", "import_rates"),
    ("ops", "backup", "0 2 * * *", "Europe/Berlin", "render_report"),
    ("shop", "import-rates", "*/10 * * * *", "Etc/UTC", "import_rates"),
    ("shop", "sync-orders", "* 7-19 * * 1-5", "Europe/Lisbon", "sync_orders"),
    ("shop", "weekly-report", "0 8 * * 1", "Asia/Tokyo", "render_report"),
    ("shop", "abandoned-carts", "20 * * * *", "Etc/UTC", "send_mail"),
    ("shop", "price-alerts", "0 12,18 * * *", "America/New_York", "send_mail"),
)
# What `fill` does not insert: workers that were just seen, a pause, a limit.
BUSY: Final = """
insert into wakeboard.workers (worker_id, name, pool, version, queues, capacity, lease_s)
values (1, 'worker-7f9c-x2x4z', 'default', '0.1.0', '{default,mail}', 100, 60),
       (2, 'worker-7f9c-b8k2p', 'default', '0.1.0', '{default,mail}', 100, 60),
       (3, 'reports-5d44-q9w7m', 'reports', '0.1.0', '{reports}', 10, 60);
insert into wakeboard.worker_types (job_type, queue, pool)
select type, 'default', 'default'
  from unnest(array['send_mail', 'import_rates', 'render_report', 'sync_orders', 'charge_card']) as type;
select wakeboard.pause('schedule:3', 'the bank migrates its interface until Monday', 'ada', 'cli');
select wakeboard.set_limit('openai-api', 5, 'their quota', 'grace', 'board')
"""


def main() -> None:
    """Takes all pictures, or those of the docs."""
    for_docs = "--docs" in sys.argv
    with tempfile.TemporaryDirectory(prefix="wakeboard-screenshots-") as folder:
        Path(folder).chmod(0o755)
        with EmbeddedPostgres(Path(folder) / "server", trusting=True) as server:
            situations = ("busy",) if for_docs else tuple(SITUATIONS)
            databases = {situation: _database(server.dsn, situation) for situation in situations}
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
                for situation, dsn in databases.items():
                    with serving(BoardOptions(dsn=dsn)) as address:
                        _take(browser, address, situation, for_docs=for_docs)
                browser.close()


def _database(server_dsn: str, situation: str) -> str:
    """A filled database."""
    with closing(psycopg.connect(server_dsn, autocommit=True)) as conn:
        conn.execute(f"create database {situation}".encode())
    dsn = make_conninfo(server_dsn, dbname=situation)
    asyncio.run(migrate(dsn))
    if SITUATIONS[situation]:
        with closing(psycopg.connect(dsn, autocommit=True)) as conn:
            fill(conn, **SITUATIONS[situation])
            _declare(conn, SITUATIONS[situation]["schedules"])
            if situation != "outage":
                conn.execute(BUSY.encode())
            generate_rollups(conn, days=90)
    return dsn


def _declare(conn: psycopg.Connection[Any], schedules: int) -> None:
    """Gives the generated schedules names, cron expressions and next ticks."""
    now = datetime.now(UTC)
    rows: list[dict[str, Any]] = []
    for number in range(schedules):
        namespace, name, cron, zone, job_type = SCHEDULES[number % len(SCHEDULES)]
        suffix = f"-{number // len(SCHEDULES) + 1}" if number >= len(SCHEDULES) else ""
        fields = parse_cron(cron, name=name).to_text()
        due = dst_ticks_for(fields, zone, "RunAfter", "First").next_tick(now)
        row = {"id": number + 1, "namespace": namespace, "name": name + suffix, "cron": cron}
        rows.append({**row, "fields": fields, "zone": zone, "type": job_type, "due": due})
    with conn.cursor() as cursor:
        cursor.executemany(
            "update wakeboard.job_definitions set namespace = %(namespace)s, name = %(name)s, schedule = %(cron)s,"
            " cron_fields = %(fields)s, time_zone = %(zone)s, job_type = %(type)s, next_run_at = %(due)s"
            " where id = %(id)s",
            rows,
        )
    conn.execute(
        "update wakeboard.job_run_history as run"
        "   set schedule = def.namespace || '/' || def.name, job_type = def.job_type"
        "  from wakeboard.job_definitions as def where def.id = run.definition_id"
    )


def _take(browser: Browser, address: str, situation: str, *, for_docs: bool) -> None:
    numbers = SITUATIONS[situation]
    run = numbers.get("history", 0) // 2 or 1
    dead = numbers.get("history", 0) // 500 * 500 or 1
    for look, options in LOOKS.items():
        pages = IN_DOCS.get(look, ()) if for_docs else tuple(PAGES)
        context = browser.new_context(**options, timezone_id="Europe/Lisbon", locale="en-GB")
        page = context.new_page()
        for name in pages:
            page.goto(address + PAGES[name].replace("{run}", str(run)).replace("{dead}", str(dead)))
            page.wait_for_timeout(300)  # until times are in the viewer's zone
            target = DOCS / f"{name}-{look}.png" if for_docs else BUILD / situation / f"{name}-{look}.png"
            target.parent.mkdir(parents=True, exist_ok=True)
            page.screenshot(path=target, full_page=not for_docs)
        context.close()
        print(f"{situation}, {look}: {len(pages)} pages")


if __name__ == "__main__":
    main()
