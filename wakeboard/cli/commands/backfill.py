"""The command `wakeboard backfill`: runs past ticks of a schedule, and lists, pauses, resumes and cancels backfills."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, cast

import typer

from wakeboard.backfills.rules import CONFIRM_ABOVE, MOST_AT_ONCE
from wakeboard.cli.support.backfill import (
    NoTickLeft,
    Planned,
    declare,
    declared_message,
    plan,
    preview_lines,
    print_backfill,
    print_backfills,
    watch,
)
from wakeboard.cli.support.options import AsJson, Reason
from wakeboard.cli.support.output import print_error, print_json, print_message
from wakeboard.cli.support.session import with_session
from wakeboard.cli.support.shell_completion import complete_schedule
from wakeboard.errors import InvalidValue, WakeboardError
from wakeboard.process.output import write_line
from wakeboard.text.humanize import counted
from wakeboard.text.object_ids import parse_id

if TYPE_CHECKING:
    from wakeboard.backfills.rules import BackfillChange
    from wakeboard.cli.support.session import CommandSession

_Wanted: TypeAlias = 'BackfillChange | Literal["watch"]'

EXAMPLES = (
    "wakeboard backfill billing/close-day --from 2026-01-01 --to 2026-02-01 --dry-run",
    "wakeboard backfill billing/close-day --from 2026-01-01 --to 2026-02-01 --at-once 2",
    "wakeboard backfill                            the newest backfills",
    "wakeboard backfill 7 --watch                  how far backfill 7 is, until it ends",
    "wakeboard backfill 7 --pause --reason 'the bank is closed'",
)


def command(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="SCHEDULE|ID",
            help="The name of a schedule, or the number of a backfill.",
            show_default=False,
            autocompletion=complete_schedule,
        ),
    ] = None,
    first: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="TIME",
            help="The range begins here: a date, or a time. Without an offset it is in the schedule's time zone.",
            show_default=False,
        ),
    ] = None,
    last: Annotated[
        str | None,
        typer.Option("--to", metavar="TIME", help="The range ends before this date or time.", show_default=False),
    ] = None,
    at_once: Annotated[
        int, typer.Option(metavar="N", min=1, max=MOST_AT_ONCE, help="At most so many of its runs run at once.")
    ] = 1,
    again: Annotated[
        bool, typer.Option("--again", help="Also run the ticks that have run.", show_default=False)
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the ticks and change nothing.", show_default=False)
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask before more than 1,000 runs.", show_default=False)
    ] = False,
    pause: Annotated[bool, typer.Option("--pause", help="Start no run of it for now.", show_default=False)] = False,
    resume: Annotated[bool, typer.Option("--resume", help="End the pause.", show_default=False)] = False,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Cancel it and its unfinished runs.", show_default=False)
    ] = False,
    watching: Annotated[
        bool, typer.Option("--watch", help="Print how far it is until it ends.", show_default=False)
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", min=1, max=1000, help="Maximum number of listed backfills.")
    ] = 20,
    reason: Reason = "",
    as_json: AsJson = False,
) -> None:
    """Run the ticks of a past range, each once.

    Without a range, list the backfills, or those of a schedule. The ticks become runs with the tick as their
    scheduled_for. Ticks that have run are left alone, and skipped ones run now. The runs have the lowest priority. Of a
    schedule whose concurrencyPolicy is not Allow, one runs at a time. --watch ends with 1 if runs are dead or the
    backfill was cancelled.
    """
    number = parse_id(what) if what is not None else None
    change = _one_of(pause=pause, resume=resume, cancel=cancel, watch=watching)
    span = _span(first, last)
    if number is not None:
        if span is not None:
            raise typer.BadParameter("give the name of a schedule with --from and --to", param_hint="SCHEDULE")
        _of_backfill(number, change, reason, as_json)
    elif change is not None:
        hint = "give the number of a backfill; `wakeboard backfill` lists them"
        raise typer.BadParameter(hint, param_hint=f"--{change}")
    elif span is None:
        if again or dry_run:
            raise typer.BadParameter("give a schedule with --from and --to", param_hint="--again, --dry-run")
        print_backfills(what, limit, as_json)
    elif what is None:
        raise typer.BadParameter("give the name of a schedule", param_hint="SCHEDULE")
    else:
        planned = with_session(lambda session: plan(session, what, *span, again=again))
        if dry_run:
            _print_preview(planned, as_json)
        else:
            _confirm(planned, yes=yes)
            _declare(planned, at_once, reason, as_json)


def _one_of(**given: bool) -> _Wanted | None:
    """The name of the option that was given. Raises BadParameter for two."""
    names = [name for name, is_given in given.items() if is_given]
    if len(names) > 1:
        raise typer.BadParameter("give one of --pause, --resume, --cancel and --watch", param_hint=f"--{names[-1]}")
    return cast("_Wanted", names[0]) if names else None


def _span(first: str | None, last: str | None) -> tuple[str, str] | None:
    """The range that was given. Raises BadParameter for half of one."""
    if first is not None and last is not None:
        return first, last
    if first is not None or last is not None:
        raise typer.BadParameter("give --from and --to", param_hint="--from" if first is None else "--to")
    return None


def _of_backfill(number: int, change: _Wanted | None, reason: str, as_json: bool) -> None:
    """Shows, watches or changes a backfill."""
    if change is None:
        print_backfill(number, as_json)
    elif change == "watch":
        raise typer.Exit(watch(number, as_json))
    else:
        _change(number, change, reason, as_json)


def _print_preview(planned: Planned, as_json: bool) -> None:
    if as_json:
        print_json(planned.as_json())
        return
    from wakeboard.cli.support.tables import print_lines

    print_lines(preview_lines(planned))
    _print_notes(planned)
    print_message(f"would run {counted(planned.runs, 'tick')} of {planned.plan.schedule}; nothing was changed.")


def _print_notes(planned: Planned) -> None:
    for note in planned.notes:
        print_error(f"note: {note}.")


def _confirm(planned: Planned, *, yes: bool) -> None:
    """Asks before very many runs. Raises typer.Abort, and InvalidValue if there is no terminal."""
    if planned.runs <= CONFIRM_ABOVE or yes:
        return
    if not sys.stdin.isatty():
        raise InvalidValue(
            f"there is no terminal for the confirmation of {counted(planned.runs, 'run')}: add --yes, or --dry-run"
            " to see the ticks"
        )
    for line in preview_lines(planned):
        write_line(line.plain, sys.stderr)
    typer.confirm(f"Run {counted(planned.runs, 'tick')} of {planned.plan.schedule}?", abort=True, err=True)


def _declare(planned: Planned, at_once: int, reason: str, as_json: bool) -> None:
    _print_notes(planned)
    try:
        made = with_session(lambda session: declare(session, planned, at_once, reason))
    except NoTickLeft as error:
        if not as_json:
            raise WakeboardError(str(error)) from None
        print_json({"schedule": planned.plan.schedule, "id": None, "total": 0, "found": error.found})
        raise typer.Exit(1) from None
    if as_json:
        print_json({"schedule": planned.plan.schedule, **made._asdict()})
    else:
        print_message(declared_message(planned, made))


def _change(number: int, change: BackfillChange, reason: str, as_json: bool) -> None:
    """Pauses, resumes or cancels a backfill. Raises WakeboardError if there is none."""

    async def act(session: CommandSession) -> tuple[str | None, str]:
        from wakeboard.cli.support.backfill import find_backfill

        known = await find_backfill(session, number)
        return await session.store.change_backfill(number, change, reason), known.state

    done, state = with_session(act)
    if as_json:
        print_json({"id": number, "changed": done is not None})
    elif done is not None:
        print_message(f"backfill {number} is {done}.")
    else:
        print_error(f"backfill {number} is not changed: it is {state}.")
