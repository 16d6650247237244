"""Orders runs by when they are due, or by how long they took: the first ones of a bounded number, on one page.

No index has these orders for all runs, and one more on live runs would slow every claim down.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, LiteralString

from psycopg.rows import class_row
from psycopg.sql import SQL

from wakeboard.store.statements import read
from wakeboard.views.queries.index_order import prefer_index_order
from wakeboard.views.queries.listings import LIVE, LIVE_COLUMNS, LIVE_QUEUES, PAST, Listings
from wakeboard.views.queries.run_conditions import conditions_of
from wakeboard.views.queries.run_list import ListedRun, RunPage, read_run_page
from wakeboard.views.rules.run_search import parse_run_search

if TYPE_CHECKING:
    from collections.abc import Collection

    import psycopg

    from wakeboard.views.rules.run_search import RunSearch

SORTED: Final = 500  # the newest runs of a status, of which `read_longest_runs` shows the longest
FIRST_DUE: Final = 1_000  # runs of each queue and priority among which `read_first_due_runs` finds the first

_FIRST_DUE: LiteralString = f"""
{LIVE_QUEUES}, first_due (id) as materialized (
  select due.id
    from live
   cross join generate_series(1, 5) as level (priority)
   cross join lateral (
     select id from wakeboard.job_runs
      where queue = live.queue and priority = level.priority and limit_key is null and crash_count < 2
        and dead_at is null
      order by run_at, id
      limit %(first_due)s) as due
   where live.queue is not null
  union all
  (select id from wakeboard.job_runs
    where limit_key is not null and not holds_slot and crash_count < 2 and dead_at is null limit %(first_due)s)
  union all
  (select id from wakeboard.job_runs where holds_slot limit %(first_due)s)
  union all
  (select id from wakeboard.job_runs where crash_count >= 2 and dead_at is null order by run_at limit %(first_due)s)
)
select {LIVE_COLUMNS}, timestamptz 'epoch' as moment from wakeboard.job_runs as run
 where run.id = any (array(select id from first_due)) {{}}
 order by run.run_at, run.id
 limit %(count)s
"""


async def read_longest_runs(
    conn: psycopg.AsyncConnection[Any], search: RunSearch, *, namespaces: Collection[str] | None, count: int
) -> RunPage:
    """The `count` runs whose last attempt took longest.

    They are the longest of the newest `SORTED` that have ended, and of as many that run, failed or are dead.
    """
    pages = [
        await read_run_page(
            conn, parse_run_search(search.with_status(",".join(wanted))), namespaces=namespaces, count=SORTED
        )
        for group in (PAST, ("running",), ("failed",), ("dead",))
        if (wanted := [status for status in group if status in search.statuses and status != "skipped"])
    ]
    now = await Listings(conn).now()

    def took(run: ListedRun) -> timedelta:
        if run.status == "running" and run.started_at is not None:
            return now - run.started_at
        return run.duration or timedelta()

    runs = sorted((run for found in pages for run in found.runs), key=took, reverse=True)[:count]
    return RunPage(now=now, runs=runs, newer=None, older=None, searched=None)


async def read_first_due_runs(
    conn: psycopg.AsyncConnection[Any], search: RunSearch, *, namespaces: Collection[str] | None, count: int
) -> RunPage:
    """The `count` unfinished runs that are due first, of the first `FIRST_DUE` of each queue and priority.

    Of the runs with a limit key there are as many altogether. Dead runs are not due.
    """
    now = await Listings(conn).now()
    live = conditions_of(search, "live", now, namespaces, by_schedule=False)
    values = {**live.values, "first_due": FIRST_DUE, "count": count}
    runs: list[ListedRun] = []
    if any(status in LIVE for status in search.statuses):
        await prefer_index_order(conn)
        runs = await read(conn, class_row(ListedRun), SQL(_FIRST_DUE).format(live.and_()), values)
    return RunPage(now=now, runs=runs, newer=None, older=None, searched=None)
