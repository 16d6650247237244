"""The command `wakeboard explain`: why a run or a schedule does not run now, one sentence for each fact."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from wakeboard.cli.support.advice import advice
from wakeboard.cli.support.options import AsJson
from wakeboard.cli.support.output import print_json
from wakeboard.cli.support.session import query_store
from wakeboard.cli.support.shell_completion import complete_schedule
from wakeboard.cli.support.tables import print_lines
from wakeboard.cli.support.time_args import with_offset
from wakeboard.errors import InvalidValue
from wakeboard.text.humanize import relative
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from datetime import datetime

    from wakeboard.cli.support.lookup import UuidRange
    from wakeboard.cli.support.read_model import Explanation
    from wakeboard.cli.support.session import CommandSession

_IN_WORDS = {"succeeded": "has succeeded", "failed": "has failed and is retried", "circuit open": "has an open circuit"}
EXAMPLES = ("wakeboard explain 1042", "wakeboard explain billing/close-day", "wakeboard explain 1042 --json")


def command(
    text: Annotated[
        str,
        typer.Argument(
            metavar="RUN|SCHEDULE",
            help="A run: its id or uuid, or the first 8 characters of its uuid. A schedule: NAME or NAMESPACE/NAME.",
            autocompletion=complete_schedule,
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Say why a run or a schedule does not run now.

    The first line is the state. Each further line is one fact: what it waits for, or what happened to it.
    """
    found, now = query_store(lambda session: _read(session, text))
    if as_json:
        print_json({name: value for name, value in found._asdict().items() if name != "job_type"})
        return
    of_run = f"run {found.id} of {found.name or found.job_type}"
    about = of_run if found.kind == "run" else f"schedule {found.name}"
    title = f"{about} {_IN_WORDS.get(found.state, f'is {found.state}')}."
    facts = [one_line(advice(fact.text(lambda at: moment_in_words(at, now)))) for fact in found.facts]
    print_lines([one_line(title), *facts])


def moment_in_words(at: datetime, now: datetime) -> str:
    """A time and how far it is from now."""
    return f"{with_offset(at)} ({relative(at, now)})"


async def _read(session: CommandSession, text: str) -> Explanation:
    """What the user named: a run, or a schedule, which may be called like the beginning of a uuid."""
    from wakeboard.cli.support.lookup import UuidRange, find_runs, find_schedule, no_such_run

    wanted = _run_in(text)
    if wanted is None or (
        isinstance(wanted, UuidRange)
        and wanted.run_id is None
        and await session.listings.schedule_names(text, whole=True)
    ):
        known = await find_schedule(session.listings, text, include_removed=True)
        schedule = await session.listings.explained_schedule(known.id)
        if schedule:
            return schedule
    (run_id,) = await find_runs(session.listings, [wanted or 0])
    run = await session.listings.explained_run(run_id)
    if run is None:
        raise no_such_run(text)
    return run


def _run_in(text: str) -> int | UuidRange | None:
    """The run that the text names; None: it can only be a schedule. Raises InvalidValue for a number that is no id."""
    from wakeboard.cli.support.lookup import parse_run

    try:
        return parse_run(text)
    except InvalidValue:
        if text.isdigit():
            raise
        return None
