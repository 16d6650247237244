"""Measures how long the pages of the web board take to answer, in a database with many finished and queued runs."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Final
from urllib.request import urlopen

from bench.tables import Table, Threshold, at_most, number, percentile
from testbed.board_server import serving
from testbed.generated_rollups import generate_rollups
from testbed.generated_runs import fill, fill_audit
from wakeboard.board import BoardOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.database import BenchmarkServer
    from bench.plan import Plan

PAGES: Final = {
    "overview, charts of a day": "/",
    "overview, charts of 90 days": "/?period=90d",
    "schedules": "/schedules",
    "calendar, a week": "/calendar?view=week",
    "runs": "/runs",
    "runs, dead": "/runs?q=status:dead",
    "runs of a job type": "/runs?q=type:send_mail",
    "runs of a schedule": "/runs?q=schedule:shop/schedule-1",
    "runs, search in payloads": "/runs?q=payload.customer:42",
    "runs, due first": "/runs?sort=due",
    "runs, longest first": "/runs?sort=longest",
    "a run": "/runs/{run}",
    "a schedule": "/schedules/1",
    "performance": "/performance",
    "performance, 90 days": "/performance?period=90d",
    "performance of a job type, 90 days": "/performance?name=type1&period=90d",
    "limits": "/limits",
    "alerts": "/alerts",
    "audit": "/audit",
    "audit of an actor": "/audit?actor=ada",
    "preview of a bulk action": "/bulk/retry?q=status:dead",
    "preview of a bulk action, a job type": "/bulk/retry?q=type:send_mail+status:dead,failed",
    "preview of a replay, a schedule": "/bulk/replay?q=schedule:shop/schedule-1",
}
OLDER: Final = re.compile(r'href="([^"]+)"[^>]*rel="next"|rel="next"[^>]*href="([^"]+)"')
ROUND_S: Final = 11.0  # figures and counts are shared for ten seconds, other reads for one
DEEP: Final = 50
ROLLUP_DAYS: Final = 400
JOB_TYPES: Final = 50
MAX_MS: Final = 300


def measure_board(server: BenchmarkServer, plan: Plan) -> Table:
    """The time of each page, and of the fiftieth page of a list."""
    crowd = plan.crowd
    with server.database(of_a_definition=False) as database:
        fill(database.conn, history=crowd.finished, live=crowd.future)
        fill_audit(database.conn, crowd.finished // 10)
        generate_rollups(database.conn, days=ROLLUP_DAYS, job_types=JOB_TYPES)
        database.do("checkpoint")
        with serving(BoardOptions(dsn=database.dsn)) as address:
            urls = {name: address + _path(path, crowd.finished) for name, path in PAGES.items()}
            times = times_of(urls, plan.claims)
            times[f"runs, page {DEEP}"] = [_time_of_deep_page(address + "/runs")]
    rows = [
        (name, number(sorted(taken)[len(taken) // 2]), number(percentile(sorted(taken), 0.95)))
        for name, taken in times.items()
    ]
    worst = max(sorted(taken)[len(taken) // 2] for taken in times.values())
    thresholds: list[Threshold] = [at_most("board: slowest page, ms", MAX_MS, [worst])]
    return Table(
        title="The web board",
        note=f"Time to answer a page, each asked {plan.claims} times, {ROUND_S:.0f} seconds apart, so that no read is"
        f" shared. The database has {crowd.finished:,} finished and {crowd.future:,} live runs, 100 schedules,"
        f" {crowd.finished // 10:,} audit rows, and figures of {ROLLUP_DAYS} days of {JOB_TYPES} job types. No worker"
        " runs.",
        head=("page", "median, ms", "95th percentile, ms"),
        rows=rows,
        thresholds=thresholds,
    )


def _path(path: str, finished: int) -> str:
    return path.replace("{run}", str(finished // 2))


def times_of(urls: Mapping[str, str], count: int) -> dict[str, list[float]]:
    """The times of each page, in rounds. The first round connects, and compiles the templates."""
    times: dict[str, list[float]] = {name: [] for name in urls}
    for place in range(count + 1):
        ends_at = time.monotonic() + ROUND_S
        for name, url in urls.items():
            began = time.perf_counter()
            _get(url)
            if place:
                times[name].append((time.perf_counter() - began) * 1000)
        time.sleep(max(0.0, ends_at - time.monotonic()))
    return times


def _time_of_deep_page(url: str) -> float:
    """The time of the fiftieth page, reached by its links."""
    taken = 0.0
    origin = "/".join(url.split("/")[:3])
    for _ in range(DEEP):
        began = time.perf_counter()
        page = _get(url)
        taken = (time.perf_counter() - began) * 1000
        found = OLDER.search(page)
        if found is None:
            raise LookupError(f"{url} has no link to the next page")
        url = origin + (found[1] or found[2]).replace("&amp;", "&")
    return taken


def _get(url: str) -> str:
    with urlopen(url) as answer:  # noqa: S310 - of loopback
        return answer.read().decode()
