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
from wakeboard.board.access.viewer import LocalAccess, RoleViewer
from wakeboard.local.postgres import EmbeddedPostgres
from wakeboard.store.migrate import migrate
from wakeboard.ticks.compiled_ticks import ticks_for
from wakeboard.ticks.cron_parser import parse_cron

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from starlette.requests import HTTPConnection

    from wakeboard.board.access.viewer import KnownNamespaces, Viewer

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
    "bulk-action": "/bulk/1",
    "backfill": "/schedules/1/backfill",
    "pause": "/schedules/2/pause",
    "not-found": "/schedules/999999",
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
# What `fill` does not insert: a dead run with a past, audit rows, a bulk action, a backfill, alerts, the backlog.
EVENTS: Final = """
set session_replication_role = replica;
update wakeboard.job_runs as run
   set status = 'dead', attempts = 3, max_attempts = 3, definition_id = 1, definition_generation = 1,
       schedule = 'billing/close-day', trigger = 'tick', job_type = 'charge_card', lease_epoch = 3,
       scheduled_for = now() - interval '26 minutes', run_at = now() - interval '26 minutes',
       created_at = now() - interval '26 minutes', started_at = now() - interval '9 minutes',
       failed_at = now() - interval '8 minutes', dead_at = now() - interval '8 minutes',
       error_type = 'CardDeclined', last_error = 'the bank declined card 4711 of customer 42',
       payload = '{"customer": 42, "month": "2026-10", "amount": "118.40", "api_key": "sk-0123456789"}'
 where id = (select max(id) from wakeboard.job_runs);
insert into wakeboard.job_attempts (
  run_id, lease_epoch, attempt, outcome, error_type, error, stack, locked_by, worker, started_at, ended_at, died)
select run.id, n, n, (array['failed', 'timed_out', 'failed'])[n],
       (array['ConnectionError', 'TimeoutError', 'CardDeclined'])[n],
       (array['the bank closed the connection', 'no answer from the bank within 600 s',
              'the bank declined card 4711 of customer 42'])[n],
       E'Traceback (most recent call last):\n  File "handlers.py", line 12, in charge_card\n    bank.charge(card)', 1,
       'worker-7f9c-x2x4z', now() - (array[26, 22, 9])[n] * interval '1 minute',
       now() - (array[25, 12, 8])[n] * interval '1 minute', n = 3
  from generate_series(1, 3) as n, (select max(id) as id from wakeboard.job_runs) as run;
insert into wakeboard.job_steps (run_id, name, lease_epoch, started_at, finished_at, result)
select run.id, name, epoch, now() - minutes * interval '1 minute', now() - minutes * interval '1 minute' + took, result
  from (values ('Find open invoices', 1, 26, interval '740 ms', '{"invoices": 3, "total": "118.40"}'::jsonb),
               ('Reserve the amount', 3, 9, interval '2.1 s', 'null')) as step (name, epoch, minutes, took, result),
       (select max(id) as id from wakeboard.job_runs) as run;
insert into wakeboard.job_effects (run_uuid, key, run_id, lease_epoch, started_at, finished_at)
select uuid, 'mail:invoice-42', id, 1, now() - interval '25 minutes', now() - interval '25 minutes' + interval '90 ms'
  from wakeboard.job_runs order by id desc limit 1;
insert into wakeboard.audit_log (at, actor, source, action, run_id, schedule, reason, detail)
select now() - interval '11 minutes', 'grace', 'board', 'retry', max(id), 'billing/close-day',
       'the bank is reachable again', '{"status_before": "dead"}' from wakeboard.job_runs;
insert into wakeboard.backlog_samples
select at, (40 + 35 * sin(extract(epoch from at) / 9000) + 20 * random())::bigint
  from generate_series(date_trunc('minute', now()) - interval '1 day', now(), '1 minute') as at;
insert into wakeboard.bulk_actions (
  action, filter, reason, actor, source, total, done, refused, created_at, cancelled_at, finished_at)
values ('retry', 'status:dead type:send_mail', 'the mail server is back', 'grace', 'board', 1204, 1204, 12,
        now() - interval '3 hours', null, now() - interval '3 hours' + interval '4 s'),
       ('cancel', 'queue:mail status:queued', 'sent by hand', 'ada', 'cli', 90, 40, 0,
        now() - interval '2 days', now() - interval '2 days', now() - interval '2 days' + interval '1 s');
insert into wakeboard.backfills (
  definition_id, schedule, range_begin, range_end, again, at_once, total, created, reason, actor, source)
values (3, 'billing/reconcile', now() - interval '9 days', now() - interval '2 days', false, 2, 42, 17,
        'the bank delivered these days again', 'ada', 'board');
insert into wakeboard.alert_rules (name, severity, definition, evaluated_at)
values ('dead-runs', 'critical', '{"dead": 1, "receivers": ["team", "on-call"]}', now()),
       ('billing-fails', 'warning',
        '{"failures": 10, "within": "60m", "where": {"queue": "billing"}, "receivers": ["team"]}', now()),
       ('silent-backups', 'warning', '{"noSuccessFor": "26h", "where": {"schedule": "ops/backup"}}', now());
insert into wakeboard.alerts (
  rule, severity, summary, examples, value, opened_at, seen_at, resolved_at, resolution, notified_at, definition)
values ('dead-runs', 'critical', '1 run of charge_card is dead',
        array['billing/close-day: the bank declined card 4711'], 1, now() - interval '8 minutes', now(), null, null,
        now() - interval '8 minutes',
        '{"dead": 1, "receivers": ["team", "on-call"]}'),
       ('billing-fails', 'warning', '14 attempts failed within 60m', array['ConnectionError: the bank closed it'], 14,
        now() - interval '26 hours', now() - interval '25 hours', now() - interval '25 hours', 'recovered',
        now() - interval '26 hours', '{"failures": 10, "within": "60m", "receivers": ["team"]}');
set session_replication_role = origin;
select wakeboard.set_limit('bank', 2, 'as agreed with the bank', 'ada', 'cli');
select wakeboard.set_rate_limit('mail', 60, 60, 10, 'their quota', 'grace', 'board')
"""
# What makes an outage more than workers that are gone.
OUTAGE: Final = """
update wakeboard.job_definitions
   set schedule_error = 'timeZone is Europe/Lisbn: write a name of the IANA database, for example Europe/Lisbon'
 where id = 5;
select wakeboard.pause('queue:mail', 'the mail server moves', 'ada', 'cli')
"""
# Workers that were just seen, a pause, a limit.
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


class AdaAccess(LocalAccess):
    """Without it, the pictures would name the user and the machine that took them."""

    async def viewer(self, request: HTTPConnection, known: KnownNamespaces) -> Viewer | None:  # noqa: ARG002
        """Ada, who may do everything."""
        return RoleViewer("ada", "operator")


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
                    with serving(BoardOptions(dsn=dsn, access=AdaAccess())) as address:
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
            conn.execute(EVENTS.encode())
            conn.execute((OUTAGE if situation == "outage" else BUSY).encode())
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
        due = ticks_for(fields, zone, "RunAfter", "First").next_tick(now)
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
    dead = numbers.get("history", 0) + numbers.get("live", 0) or 1  # see EVENTS
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
