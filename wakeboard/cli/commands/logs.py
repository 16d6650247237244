"""The command `wakeboard logs`: what a run, or the newest run of a schedule, logged."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from wakeboard.cli.support.lookup import find_runs, find_schedule, no_such_run, parse_run
from wakeboard.cli.support.options import AsJson, OfSchedule
from wakeboard.cli.support.output import print_error, print_json, print_json_line, print_message
from wakeboard.cli.support.session import query_store, with_session
from wakeboard.errors import InvalidValue, WakeboardError
from wakeboard.process.display_zone import in_zone
from wakeboard.process.output import write_line
from wakeboard.text.humanize import counted
from wakeboard.text.sanitize import one_line, printable
from wakeboard.views.rules.run_rows import ENDED

if TYPE_CHECKING:
    from wakeboard.cli.support.session import CommandSession
    from wakeboard.logs.rules import AttemptLog, LogRow
    from wakeboard.views.rules.run_rows import StoredRun

EXAMPLES = (
    "wakeboard logs 1042",
    "wakeboard logs 1042 -f --level warning",
    "wakeboard logs --schedule billing/close-day -f",
)
LAST_FLUSH_S: Final = 1.5  # the last lines of a run are stored this long after its end


def command(
    text: Annotated[
        str | None,
        typer.Argument(metavar="[RUN]", help="Its id, its uuid, or its first 8 characters.", show_default=False),
    ] = None,
    schedule: OfSchedule = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Show new lines until the run has ended.", show_default=False)
    ] = False,
    attempt: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Only this attempt.", show_default=False)
    ] = None,
    level: Annotated[
        Literal["debug", "info", "warning", "error"], typer.Option(help="Only lines of this level and above.")
    ] = "debug",
    as_json: AsJson = False,
) -> None:
    """Show what a run logged and printed.

    With --schedule, it is the newest run of that schedule that has started; -f goes on with the runs after it. Lines
    that were not kept, because the log was too long or the database did not answer, are counted. With -f, --json prints
    an object a line.
    """
    if (text is None) == (schedule is None):
        raise InvalidValue("write a run, or --schedule and the name of a schedule.")

    async def show(session: CommandSession) -> None:
        shown = _Log(session, attempt, level, follow=follow, as_json=as_json)
        if text is not None:
            (run_id,) = await find_runs(session.listings, [parse_run(text)])
            await shown.show_run(run_id)
        elif schedule is not None:
            await shown.show_schedule((await find_schedule(session.listings, schedule, include_removed=True)).id)
        if as_json and not follow:
            print_json(shown.rows)

    if follow:
        with_session(show)
    else:
        query_store(show)


@dataclass
class _Log:
    """Shows the logs of runs, one after the other."""

    session: CommandSession
    attempt: int | None
    level: str
    follow: bool
    as_json: bool
    rows: list[LogRow] = field(default_factory=list["LogRow"])

    async def show_schedule(self, definition_id: int) -> None:
        last = 0
        while True:
            run_id = await self.session.listings.newest_started_run(definition_id, last)
            if run_id is not None:
                await self.show_run(run_id)
                last = run_id
            if not self.follow:
                if run_id is None:
                    raise WakeboardError("no run of this schedule has started.")
                return
            await asyncio.sleep(self.session.listings.poll_s)

    async def show_run(self, run_id: int) -> None:
        from wakeboard.logs.rules import why_no_log

        shown = dict[int, int]()  # by lease epoch, the last line
        ended_polls = 0
        while True:
            run = await self.session.listings.stored_run(run_id)
            if run is None:
                raise no_such_run(str(run_id))
            new = await self._show_new(run, shown)
            if not self.follow:
                break
            ended_polls = 0 if new or run.status not in ENDED else ended_polls + 1
            if ended_polls * self.session.listings.poll_s > LAST_FLUSH_S:
                break
            await asyncio.sleep(self.session.listings.poll_s)
        if not shown and self.attempt is not None and run.attempts < self.attempt:
            print_error(f"run {run.id} has had {counted(run.attempts, 'attempt')}; there is no attempt {self.attempt}.")
        elif not shown:
            kept = await self.session.listings.log_retention()
            why = why_no_log(started_at=run.started_at, now=self.session.now, kept=kept)
            print_error(f"run {run.id} has no log. {why}")
            from wakeboard.cli.support.run_details import log_link

            if link := log_link(run):
                print_message(link)

    async def _show_new(self, run: StoredRun, shown: dict[int, int]) -> bool:
        """Shows the lines behind those that were `shown`. Returns whether there were any."""
        any_new = False
        attempts = await self.session.listings.attempt_logs(run)
        for each in attempts:
            if self.attempt is not None and each.attempt != self.attempt:
                continue
            if each.lease_epoch not in shown and (len(attempts) > 1 or self.follow):
                self._heading(run, each)
            last = shown.setdefault(each.lease_epoch, 0)
            while rows := await self.session.listings.log_after(run, each, last):
                any_new = True
                for row in rows:
                    self._print(row, row.number - last - 1)
                    last = row.number
                shown[each.lease_epoch] = last
            sys.stdout.flush()
        return any_new

    def _heading(self, run: StoredRun, each: AttemptLog) -> None:
        if not self.as_json:
            write_line(f"— run {run.id}, attempt {each.attempt} —")

    def _print(self, row: LogRow, missing: int) -> None:
        """Prints a line. `missing`: how many lines before it were not kept."""
        from wakeboard.logs.rules import LEVELS

        if missing > 0 and not self.as_json:
            write_line(f"… {counted(missing, 'line')} were not kept …")
        if LEVELS[row.level] < LEVELS[self.level]:
            return
        if not self.as_json:
            clock = f"{in_zone(row.at):%H:%M:%S}.{row.at.microsecond // 1000:03d}"
            first, *more = printable(row.text).split("\n")
            write_line("\n    ".join([f"{clock} {row.level:7} {one_line(row.source)}: {first}", *more]))
        elif self.follow:
            print_json_line(row)
        else:
            self.rows.append(row)
