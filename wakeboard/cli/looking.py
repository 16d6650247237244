"""Commands that look: schedules, next, runs, run."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from wakeboard.cli.echo import AsJson, print_json, say
from wakeboard.cli.help_examples import examples
from wakeboard.cli.session import open_store
from wakeboard.cli.shell_completion import complete_queue, complete_schedule
from wakeboard.cli.time_args import read_since
from wakeboard.errors import InvalidSchedule, InvalidValue, WakeboardError

if TYPE_CHECKING:
    from datetime import datetime

    from wakeboard.cli.session import Session
    from wakeboard.cli.upcoming_ticks import ComingTicks
    from wakeboard.store.queries.listings import RunRow, ScheduleRow
    from wakeboard.store.queries.run_details import RunDetails

commands = typer.Typer()


class Status(StrEnum):
    """The states that runs may be listed by (typer takes no list of a Literal)."""

    QUEUED = "queued"
    RUNNING = "running"
    FAILED = "failed"
    DEAD = "dead"
    SUCCEEDED = "succeeded"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    DISCARDED = "discarded"


@commands.command(
    "schedules",
    epilog=examples("wakeboard schedules", "wakeboard schedules --namespace billing", "wakeboard schedules --json"),
)
def schedules(
    namespace: Annotated[str | None, typer.Option(metavar="NAME", help="Only those of one namespace.")] = None,
    as_json: AsJson = False,
) -> None:
    """List schedules and how they are doing.

    When each is due next, how its last run ended, and what is unfinished. NEXT says instead of a time: suspended (by
    its YAML), paused (`wakeboard pause`), stalled (its ticks cannot be computed) or on demand (it has no cron line;
    `wakeboard run-now` runs it).
    """

    async def ask(session: Session) -> tuple[list[ScheduleRow], datetime]:
        return await session.reports.schedules(namespace), session.now

    rows, now = open_store(ask)
    if as_json:
        print_json(rows)
    elif rows:
        _print_schedules(rows, now)
    else:
        say(
            f"no schedules in namespace {namespace!r}."
            if namespace
            else "no schedules yet. `wakeboard apply DIR` takes them from a folder of JobSchedule YAML."
        )


def _print_schedules(rows: list[ScheduleRow], now: datetime) -> None:
    from wakeboard.cli.listings import SCHEDULE_COLUMNS, schedule_cells, stalled_lines
    from wakeboard.cli.tables import print_lines, print_table

    print_table(SCHEDULE_COLUMNS, [schedule_cells(row, now) for row in rows])
    print_lines(stalled_lines(rows))


@commands.command(
    "next",
    epilog=examples(
        "wakeboard next billing/weekly-report        the coming ticks of a schedule",
        "wakeboard next '0 2 * * *' --zone Europe/Lisbon -n 400",
        "                                            a cron line; notes say what clock changes do",
        "wakeboard next 'H H * * *' --name billing/tidy   where H falls for that schedule",
    ),
)
def next_ticks(
    what: Annotated[
        str,
        typer.Argument(
            metavar="SCHEDULE|CRON", help="A schedule's name, or a cron line.", autocompletion=complete_schedule
        ),
    ],
    count: Annotated[int, typer.Option("--count", "-n", metavar="N", min=1, max=10_000, help="How many ticks.")] = 10,
    zone: Annotated[str, typer.Option(metavar="ZONE", help="Time zone of a cron line.")] = "Etc/UTC",
    name: Annotated[str, typer.Option(metavar="NAMESPACE/NAME", help="Whose `H` values to use.")] = "default/example",
    gap: Annotated[
        Literal["RunAfter", "Skip"],
        typer.Option(metavar="RunAfter|Skip", help="Of a cron line: when the clock jumps over a tick."),
    ] = "RunAfter",
    overlap: Annotated[
        Literal["First", "Both"],
        typer.Option(metavar="First|Both", help="Of a cron line: when a local time comes twice."),
    ] = "First",
    as_json: AsJson = False,
) -> None:
    """Show when a schedule or a cron line is due next.

    With what clock changes do to it. What has a space in it or begins with @ is a cron line and needs no database. A
    schedule's own zone and rules come from the board.
    """
    if " " in what.strip() or what.startswith("@"):
        coming, now = _of_cron_line(what, count, name, zone, gap, overlap)
    else:
        coming, now = open_store(lambda session: _of_schedule(session, what, count))
    if as_json:
        print_json(coming)
    else:
        _print_ticks(coming, now)


def _of_cron_line(
    line: str, count: int, name: str, zone: str, gap: Literal["RunAfter", "Skip"], overlap: Literal["First", "Both"]
) -> tuple[ComingTicks, datetime]:
    from datetime import UTC, datetime

    from wakeboard.cli.upcoming_ticks import ComingTicks, coming_ticks
    from wakeboard.rules.cron_parser import parse_cron
    from wakeboard.rules.dst_ticks import TickSchedule

    now = datetime.now(UTC)  # there may be no database to ask
    try:
        ticks, skipped = coming_ticks(TickSchedule(parse_cron(line, name=name), zone, gap, overlap), now, count)
    except InvalidSchedule as error:
        raise InvalidValue(str(error)) from None
    return ComingTicks(schedule=None, cron=line, time_zone=zone, state="active", ticks=ticks, skipped=skipped), now


async def _of_schedule(session: Session, text: str, count: int) -> tuple[ComingTicks, datetime]:
    from wakeboard.cli.lookup import find_schedule
    from wakeboard.cli.upcoming_ticks import ComingTicks, coming_ticks
    from wakeboard.rules.dst_ticks import tick_schedule_for

    known = await find_schedule(session.reports, text)
    times = await session.reports.schedule_times(known.id)
    ticks, skipped = [], []
    if times.cron_fields is not None:
        tick_schedule = tick_schedule_for(times.cron_fields, times.time_zone, times.dst_gap, times.dst_overlap)
        ticks, skipped = coming_ticks(tick_schedule, session.now, count)
    return (
        ComingTicks(
            schedule=known.short,
            cron=times.schedule,
            time_zone=times.time_zone,
            state=times.state,
            ticks=ticks,
            skipped=skipped,
        ),
        session.now,
    )


def _print_ticks(coming: ComingTicks, now: datetime) -> None:
    from wakeboard.cli.listings import UTC_NAMES, when
    from wakeboard.cli.tables import print_table
    from wakeboard.cli.upcoming_ticks import tick_cells, tick_columns
    from wakeboard.display_zone import zone_label

    if coming.cron is None:
        now_too = "" if coming.state == "on demand" else f" It is {coming.state} now."
        say(f"{coming.schedule} has no cron line: `wakeboard run-now {coming.schedule}` makes a run.{now_too}")
    elif coming.schedule:
        said = "" if coming.state == "active" else f" It is {coming.state} now."
        say(f"{coming.schedule}: {when(coming.cron, coming.time_zone)}.{said}")
    if coming.cron is None:
        pass
    elif not coming.ticks:
        say("There is no further tick.")
    else:
        local = coming.time_zone not in UTC_NAMES or zone_label() != "UTC"
        print_table(tick_columns(local=local), [tick_cells(tick, now, local=local) for tick in coming.ticks])
    for sentence in coming.skipped:
        say(f"Note: {sentence}.")


@commands.command(
    "runs",
    epilog=examples(
        "wakeboard runs                                what happened last",
        "wakeboard runs --status dead --status failed  what went wrong",
        "wakeboard runs --schedule weekly-report --since 2d",
        "wakeboard runs --type send_mail --json | jq '.[].error'",
    ),
)
def runs(
    status: Annotated[
        list[Status] | None,
        typer.Option(metavar="STATUS", help=f"Only in this state: {', '.join(Status)}; may be repeated."),
    ] = None,
    schedule: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Only of this schedule.", autocompletion=complete_schedule),
    ] = None,
    job_type: Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Only of this job type.")] = None,
    queue: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only of this queue.", autocompletion=complete_queue)
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only what happened since: 90s, 2h, 3d or an ISO 8601 moment.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, max=100_000, help="At most so many.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List runs, live and finished, the newest first.

    failed will be tried again; dead was given up and waits for a person (retry or discard); discarded is what a person
    gave up. A skipped run stands for ticks that were not run, with the reason.
    """
    moment = read_since(since) if since is not None else None

    async def ask(session: Session) -> tuple[list[RunRow], datetime]:
        from wakeboard.cli.filters import run_filter
        from wakeboard.store.queries.listings import STATUSES

        wanted = await run_filter(session, status or STATUSES, schedule, job_type, queue, moment)
        return await session.reports.runs(wanted, limit), session.now

    rows, now = open_store(ask)
    if as_json:
        print_json(rows)
    elif rows:
        _print_runs(rows, now)
    elif any(given is not None for given in (status, schedule, job_type, queue, since)):
        say("no run matches.")
    else:
        say("no runs yet. `wakeboard enqueue ping` makes one; a schedule makes them when it is due.")


def _print_runs(rows: list[RunRow], now: datetime) -> None:
    from wakeboard.cli.listings import RUN_COLUMNS, run_cells
    from wakeboard.cli.tables import print_table

    print_table(RUN_COLUMNS, [run_cells(row, now) for row in rows])


@commands.command(
    "run", epilog=examples("wakeboard run 1042", "wakeboard run 0b0e1c5a --json", "wakeboard run 1042 | less")
)
def run(
    which: Annotated[str, typer.Argument(metavar="RUN", help="Its id, its uuid, or the first 8 characters of it.")],
    as_json: AsJson = False,
) -> None:
    """Show all that is known of one run.

    Its payload, attempts and errors, steps, effects and timeline. An effect in doubt was begun by an attempt that
    ended without saying that it was done.
    """
    from wakeboard.cli.lookup import find_runs, read_run

    wanted = read_run(which)

    async def ask(session: Session) -> tuple[RunDetails, datetime]:
        from wakeboard.store.queries.run_details import read_run_details

        (run_id,) = await find_runs(session.reports, [wanted])
        report = await read_run_details(session.conn, run_id)
        if report is None:
            raise WakeboardError(f"there is no run {which}; it may be older than the history that is kept.")
        return report, session.now

    report, now = open_store(ask)
    if as_json:
        print_json(report)
        return
    from wakeboard.cli.run_details import run_details
    from wakeboard.cli.tables import print_lines, width

    print_lines(run_details(report, now, width()))
