"""The command `wakeboard plan`: what a change of schedules does to their ticks, before it is applied."""

from __future__ import annotations

import gc
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from wakeboard.cli.support.findings import has_failed, print_findings
from wakeboard.cli.support.options import AsJson, Strict
from wakeboard.cli.support.output import print_json, print_message
from wakeboard.cli.support.session import with_database
from wakeboard.cli.support.tables import Column, print_table
from wakeboard.cli.support.time_args import parse_time
from wakeboard.errors import InvalidValue
from wakeboard.process.output import write_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wakeboard.cli.support.session import DatabaseSession
    from wakeboard.manifests import Parsed
    from wakeboard.plan.plan import Plan
    from wakeboard.plan.rules.state import State

DIFFERS = 3  # exit code; 2 is invalid usage
FIRST_TIME = datetime(1972, 1, 1, tzinfo=UTC)  # no zone has had seconds in its offset since
LAST_TIME = datetime(2090, 1, 1, tzinfo=UTC)

EXAMPLES = (
    "wakeboard plan main:schedules/ schedules/           the branch main, and the files of this folder",
    "wakeboard plan HEAD~1:deploy HEAD:deploy -o markdown    two commits, for a pull request",
    "wakeboard plan --source file:schedules schedules/    what the database has of this source",
)


def command(
    states: Annotated[
        list[str],
        typer.Argument(
            metavar="[BEFORE] AFTER",
            help="Each a folder, a file, or REVISION:PATH of the Git repository. With --source only AFTER.",
            show_default=False,
        ),
    ],
    source: Annotated[
        str | None,
        typer.Option(
            metavar="SOURCE", help="Instead of BEFORE what the database has of this source: file:NAME or k8s:NAME."
        ),
    ] = None,
    days: Annotated[int, typer.Option(metavar="N", min=1, max=366, help="For how many days ticks are compared.")] = 30,
    since: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="When they begin, an ISO 8601 time. The default is now."),
    ] = None,
    output: Annotated[
        Literal["markdown"] | None, typer.Option("--output", "-o", help="Markdown, for a pull request.")
    ] = None,
    strict: Strict = False,
    detailed_exitcode: Annotated[
        bool,
        typer.Option("--detailed-exitcode", help="Exit 3 if something differs and nothing fails.", show_default=False),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what a change of schedules does to their ticks.

    It compares two states by the scheduler's own rules: ticks that are gained, lost and moved; clock changes, minutes
    with too many ticks, limits, renamed schedules, chains of `after` that break, mistakes in files, and secrets in
    clear text. It needs no database, except for --source, and changes nothing. The exit code is 1 if a finding fails.
    """
    if output and as_json:
        raise InvalidValue("--output and --json exclude each other; write one of them.")
    found = _plan(states, source, _beginning(since), days)
    if as_json:
        print_json(found)
    elif output:
        from wakeboard.plan.markdown import markdown

        write_line(markdown(found).removesuffix("\n"))
    else:
        _print(found)
    if has_failed(found.findings, strict=strict):
        raise typer.Exit(1)
    if detailed_exitcode and found.schedules:
        raise typer.Exit(DIFFERS)


def _beginning(since: str | None) -> datetime:
    if since is None:
        return datetime.now(UTC)
    found = parse_time(since)
    if not FIRST_TIME <= found <= LAST_TIME:
        raise InvalidValue(f"--from is {since!r}; write a time from {FIRST_TIME.year} to {LAST_TIME.year - 1}.")
    return found


def _plan(states: Sequence[str], source: str | None, since: datetime, days: int) -> Plan:
    from wakeboard.plan.plan import plan
    from wakeboard.plan.states import read_state

    if len(states) != (1 if source else 2):
        wanted = "only AFTER" if source else "BEFORE and AFTER, for example main:schedules/ schedules/"
        raise InvalidValue(f"{len(states)} states are given; write {wanted}{' with --source' if source else ''}.")
    parsed: Parsed = {}
    gc.disable()  # a sixth of the time of 10,000 schedules: they are kept to the end, and are no reference cycles
    try:
        after = read_state(states[-1], parsed)
        before = with_database(lambda session: _stored(session, source)) if source else read_state(states[0], parsed)
        return plan(before, after, since, days)
    finally:
        gc.enable()


async def _stored(session: DatabaseSession, source: str) -> State:
    from wakeboard.plan.states import read_source

    return await read_source(session.conn, source)


def _print(found: Plan) -> None:
    from wakeboard.plan.rules.words import difference, tick_words, totals

    columns = [*(Column(heading) for heading in ("CHANGE", "SCHEDULE", "TICKS", "")), Column("WHAT", shrinks=True)]
    rows = [[each.change, each.schedule, totals(each), tick_words(each), difference(each)] for each in found.schedules]
    if rows:
        print_table(columns, rows)
    for each in found.schedules:
        for sentence in each.clock_changes:
            print_message(f"Note: {each.schedule} in {each.time_zone}: {sentence}.")
    print_findings([each for each in found.findings if each.level != "ok"])
    print_message(_summary(found))


def _summary(found: Plan) -> str:
    from wakeboard.plan.rules.words import plan_summary

    period = f"{found.begin:%Y-%m-%d %H:%M} to {found.end:%Y-%m-%d %H:%M} UTC"
    return f"{found.before} -> {found.after}, {period}: {plan_summary(found, found.schedules)}."
