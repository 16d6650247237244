"""The read model of commands, from the database: each read is a query of a feature."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from wakeboard.actions.admin_api import AdminStore
from wakeboard.actions.queries.run_selection import RunQuery, read_selected_ids
from wakeboard.backfills import queries as backfills
from wakeboard.backfills.rules import TickRules, backfill_plan, backfill_range
from wakeboard.cli.support.read_model import Explanation
from wakeboard.dependencies.queries import read_blocking_reasons
from wakeboard.logs import queries as logs
from wakeboard.logs.rules import log_row
from wakeboard.views.queries.listings import Listings
from wakeboard.views.queries.run_details import read_run_details, read_stored_run
from wakeboard.views.queries.run_list import read_run_page
from wakeboard.views.queries.run_situation import read_run_situation
from wakeboard.views.queries.schedule_details import read_next_ticks, read_schedule_details
from wakeboard.views.queries.schedule_list import schedule_rows
from wakeboard.views.queries.schedule_page import schedule_row
from wakeboard.views.queries.schedule_situation import read_schedule_situation
from wakeboard.views.rules.run_explanation import explain_run
from wakeboard.views.rules.schedule_explanation import explain_schedule

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from datetime import timedelta

    from wakeboard.backfills.rules import BackfillPlan, BackfillRow
    from wakeboard.logs.rules import AttemptLog, LogRow
    from wakeboard.views.queries.run_list import ListedRun
    from wakeboard.views.rules.run_detail_rows import RunDetails
    from wakeboard.views.rules.run_rows import StoredRun
    from wakeboard.views.rules.run_search import RunSearch, Term
    from wakeboard.views.rules.schedule_rows import NextTicks, ScheduleDetails, ScheduleRow

LINES_AT_ONCE: Final = 10_000
SCHEDULES_AT_ONCE: Final = 1_000


class DatabaseReads(Listings):
    """Implements ReadModel over one connection."""

    poll_s: float = 0.3
    scope: tuple[Term, ...] = ()

    async def newest_runs(self, search: RunSearch, count: int) -> Sequence[ListedRun]:
        """The newest runs that fit, however many pages of the search that takes."""
        page = await read_run_page(self.conn, search, namespaces=None, count=count)
        runs = page.runs
        while page.older is not None and len(runs) < count:
            page = await read_run_page(self.conn, search, namespaces=None, count=count - len(runs), after=page.older)
            runs += page.runs
        return runs

    async def selected_ids(self, search: RunSearch, statuses: Sequence[str]) -> list[int]:
        """The ids of all runs that fit and have one of these statuses."""
        return await read_selected_ids(self.conn, RunQuery(search=search, takes=statuses))

    async def stored_run(self, run_id: int) -> StoredRun | None:
        """The run with this id."""
        return await read_stored_run(self.conn, run_id)

    async def run_details(self, run_id: int) -> RunDetails | None:
        """The run with this id and what happened to it."""
        return await read_run_details(self.conn, run_id)

    async def explained_run(self, run_id: int) -> Explanation | None:
        """Why the run with this id does not run now."""
        found = await read_run_situation(self.conn, run_id)
        if found is None:
            return None
        run = found.run
        return Explanation("run", run.id, run.schedule, run.job_type, run.status, explain_run(found))

    async def explained_schedule(self, definition_id: int) -> Explanation | None:
        """Why the schedule with this id creates no runs now, or when it will."""
        found = await read_schedule_situation(self.conn, definition_id)
        if found is None:
            return None
        name = f"{found.namespace}/{found.name}"
        return Explanation("schedule", found.id, name, found.job_type, found.state, explain_schedule(found))

    async def schedule_pages(self, namespace: str | None, most: int) -> AsyncIterator[tuple[list[ScheduleRow], bool]]:
        """At most `most` schedules by name, with what blocks them, page by page, and whether there are more of them."""
        last, more = None, True
        while most > 0 and more:
            size = min(most, SCHEDULES_AT_ONCE)
            rows = await schedule_rows(self.conn, namespace, size + 1, last)
            more, rows = len(rows) > size, rows[:size]
            blocked = await read_blocking_reasons(self.conn, [row.id for row in rows if row.runs_after])
            if rows:
                yield [replace(row, blocked=blocked[row.id]) if row.id in blocked else row for row in rows], more
                last, most = rows[-1], most - size

    async def schedule_details(self, definition_id: int) -> ScheduleDetails | None:
        """The schedule with this id, what is wrong, its runs and its next ticks."""
        return await read_schedule_details(self.conn, definition_id, namespaces=None)

    async def next_ticks(self, definition_id: int, count: int) -> NextTicks | None:
        """The next ticks of the schedule with this id."""
        return await read_next_ticks(self.conn, definition_id, count, namespaces=None)

    async def backfill_plan(self, definition_id: int, first: str, last: str) -> BackfillPlan | None:
        """What is known about the ticks of this range of a schedule. Raises InvalidValue for a range that is none."""
        row = await schedule_row(self.conn, definition_id, None)
        if row is None:
            return None
        name = f"{row['namespace']}/{row['name']}"
        rules = TickRules(name, row["cron_fields"], row["time_zone"], row["dst_gap"], row["dst_overlap"])
        wanted = backfill_range(rules, first, last, await self.now())
        found = await AdminStore(self.conn).plan_backfill(definition_id, wanted.ticks)
        return backfill_plan(rules, wanted, found, await backfills.history_begins(self.conn, definition_id))

    async def backfill(self, backfill_id: int) -> BackfillRow | None:
        """The backfill with this number."""
        return await backfills.backfill(self.conn, backfill_id)

    async def backfills(self, count: int, definition_id: int | None) -> list[BackfillRow]:
        """The newest backfills, of one schedule or of all."""
        return await backfills.backfills(self.conn, count, definition_id=definition_id)

    async def newest_started_run(self, definition_id: int, after: int) -> int | None:
        """The id of the newest run of a schedule that has started, above `after`."""
        return await logs.newest_started_run(self.conn, definition_id, after)

    async def attempt_logs(self, run: StoredRun) -> Sequence[AttemptLog]:
        """The attempts of a run that have a log, oldest first."""
        return await logs.attempt_logs(self.conn, run.id, run.uuid)

    async def log_after(self, run: StoredRun, attempt: AttemptLog, number: int) -> list[LogRow]:
        """Some lines of an attempt behind the one with this number, in their order; []: there are no more yet."""
        lines = await logs.lines_after(self.conn, run.uuid, attempt.lease_epoch, number, LINES_AT_ONCE)
        return [log_row(run.id, attempt.attempt, attempt.lease_epoch, line) for line in lines]

    async def log_retention(self) -> timedelta | None:
        """How long the installation keeps logs."""
        return await logs.log_retention(self.conn)
