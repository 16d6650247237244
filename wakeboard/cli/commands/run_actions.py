"""The commands retry, cancel, replay, discard and release: select runs, preview and change them, print the results."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, fields
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Annotated, Any, Final, get_type_hints

import typer

from wakeboard.actions.run_actions import RUN_ACTIONS
from wakeboard.cli.support.options import AsJson, JobType, OfQueue, OfSchedule, Payload, Reason, Since
from wakeboard.cli.support.output import print_error, print_json, print_message
from wakeboard.cli.support.payload_arg import read_payload
from wakeboard.cli.support.session import with_session
from wakeboard.cli.support.time_args import parse_since
from wakeboard.errors import InvalidValue
from wakeboard.process.output import write_line
from wakeboard.text.humanize import counted
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from datetime import datetime

    from wakeboard.actions.admin_api import RunActionName
    from wakeboard.actions.run_actions import RunAction
    from wakeboard.cli.support.session import CommandSession
    from wakeboard.engine.answers import Answer, Replayed
    from wakeboard.views.rules.run_rows import RunRow

BATCH_SIZE = 1000  # runs in one SQL statement
MAX_MESSAGES = 20  # runs with a message of their own
SAMPLE_SIZE = 10  # runs and groups in a preview
HELP: Final[dict[RunActionName, str]] = {
    "retry": """Retry dead or failed runs now.

    The runs keep their ids, completed steps and completed effects. They have all their attempts again.
    """,
    "cancel": """Cancel queued, failed and running runs.

    A running run is cancelled at the next heartbeat of its worker, unless it succeeds before.
    """,
    "discard": """Move dead runs to history, without another attempt.

    `wakeboard replay` can still enqueue copies of them.
    """,
    "replay": """Enqueue copies of finished runs.

    Each copy has a new uuid, so its steps and effects happen again, but for effects with once="forever". With --payload
    all copies have that payload. Use retry for dead runs.
    """,
    "release": """Take running runs from their workers at once.

    For a worker that hangs and still sends heartbeats. The runs are queued again, due now, without a failed attempt.
    What the old worker reports about them is refused. Until it notices, two handlers may execute such a run.
    """,
}
EXAMPLES: Final[dict[RunActionName, tuple[str, ...]]] = {
    "retry": (
        "wakeboard retry 1042 1043",
        "wakeboard retry --all-dead --schedule weekly-report",
        "wakeboard retry --all-dead --since 1d --dry-run        show which runs",
        "wakeboard retry --all-failed --type send_mail --yes    do not wait for their backoff",
    ),
    "cancel": ("wakeboard cancel 1042", "wakeboard cancel --all-queued --type send_mail --since 1h"),
    "discard": (
        "wakeboard discard 1042",
        "wakeboard discard --all-dead --dry-run",
        "wakeboard discard --all-dead --schedule weekly-report --yes",
    ),
    "replay": (
        "wakeboard replay 1042",
        """wakeboard replay 1042 --payload '{"to": "ada@example.com"}'""",
        "wakeboard replay --all-succeeded --schedule export --since 1d",
    ),
    "release": ("wakeboard release 1042", "wakeboard release --all-running --type send_mail --dry-run"),
}

Runs = Annotated[
    list[str] | None,
    typer.Argument(metavar="RUN", help="Ids, uuids, or the first 8 characters of uuids.", show_default=False),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.", show_default=False)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the runs and change nothing.", show_default=False)]


@dataclass(frozen=True, slots=True)
class Options:
    """The arguments of a command: runs, or --all-… options with filters, and how it acts.

    `statuses`: each status in which the action accepts runs, and whether its --all-… option was given.
    """

    statuses: dict[str, bool]
    runs: Runs = None
    schedule: OfSchedule = None
    job_type: JobType = None
    queue: OfQueue = None
    since: Since = None
    payload: Payload = None
    reason: Reason = ""
    yes: Yes = False
    dry_run: DryRun = False
    as_json: AsJson = False

    @property
    def selected_statuses(self) -> list[str]:
        """The statuses whose --all-… option was given."""
        return [status for status, given in self.statuses.items() if given]


def command_of(name: RunActionName) -> Callable[..., None]:
    """The function of the command, with the parameters that typer reads: an --all-… option for each status."""
    action, types = RUN_ACTIONS[name], get_type_hints(Options, include_extras=True)

    def command(**given: Any) -> None:
        statuses = {status: given.pop(f"all_{status}") for status in action.takes}
        _act(name, Options(statuses, **given))

    def option(name: str, default: Any, kind: Any) -> Parameter:
        return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)

    def all_of(status: str) -> Any:
        return Annotated[bool, typer.Option(f"--all-{status}", help=f"All {status} runs.", show_default=False)]

    runs, *others = [option(each.name, each.default, types[each.name]) for each in fields(Options)[1:]]
    every = [option(f"all_{status}", False, all_of(status)) for status in action.takes]
    shared = [each for each in others if each.name != "payload" or action.creates_runs]
    command.__signature__ = Signature([runs, *every, *shared])  # type: ignore[attr-defined]
    command.__doc__ = HELP[name]
    return command


def _act(name: RunActionName, options: Options) -> None:
    """Applies the action of this name to the selected runs and prints the results.

    Raises typer.Exit(1) if the store refused a run, or with --dry-run if it would refuse one.
    """
    action = RUN_ACTIONS[name]
    payload = read_payload(options.payload) if options.payload is not None else None
    _require_runs_or_filters(options)
    find = _finder(options)
    if options.dry_run:
        preview = with_session(lambda session: _preview(session, find))
        _print_preview(name, options.statuses, preview, options.as_json)
        return
    ids = with_session(find) if options.runs or options.yes else _confirmed(name, find)
    answers = with_session(lambda session: _apply(session, action, ids, payload, options.reason)) if ids else []
    if options.as_json:
        print_json([{**answer._asdict(), "refused": _refused(answer)} for answer in answers])
    else:
        _print_answers(action, answers)
    if any(_refused(answer) for answer in answers):
        raise typer.Exit(1)


def _refused(answer: Answer | Replayed) -> bool:
    return answer.answer.startswith("refused")


def _require_runs_or_filters(options: Options) -> None:
    *others, last = (f"--all-{status}" for status in options.statuses)
    of_status = f"{', '.join(others)} or {last}" if others else last
    filters = (options.schedule, options.job_type, options.queue, options.since)
    if options.runs and (options.selected_statuses or any(value is not None for value in filters)):
        raise typer.BadParameter(f"give runs, or use {of_status} with filters, not both", param_hint="RUN")
    if not options.runs and not options.selected_statuses:
        raise typer.BadParameter(f"give runs by id or uuid, or use {of_status}", param_hint="RUN")


def _finder(options: Options) -> Callable[[CommandSession], Awaitable[list[int]]]:
    """The query for the selected runs. Raises InvalidValue before the command connects."""
    from wakeboard.cli.support.lookup import find_runs, parse_run, run_search

    runs = [parse_run(text) for text in options.runs or ()]
    since = parse_since(options.since) if options.since is not None else None

    async def find(session: CommandSession) -> list[int]:
        if runs:
            return await find_runs(session.listings, runs)
        statuses = options.selected_statuses
        search = await run_search(session, statuses, options.schedule, options.job_type, options.queue, since)
        return await session.listings.selected_ids(search, statuses)

    return find


# -- preview -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Preview:
    """The selected runs, newest first. `ids` may contain runs that do not exist."""

    ids: list[int]
    runs: list[RunRow]
    now: datetime


async def _preview(session: CommandSession, find: Callable[[CommandSession], Awaitable[list[int]]]) -> _Preview:
    ids = await find(session)
    return _Preview(ids, await session.listings.runs(ids), session.now)


def _confirmed(verb: str, find: Callable[[CommandSession], Awaitable[list[int]]]) -> list[int]:
    """The ids of the selected runs, after the user has confirmed the preview. Raises typer.Abort."""
    preview = with_session(lambda session: _preview(session, find))
    if preview.ids:
        if not sys.stdin.isatty():
            raise InvalidValue("there is no terminal for the confirmation: add --yes, or --dry-run to see the runs")
        for line in _preview_lines(preview.runs, preview.now):
            write_line(line, sys.stderr)
        typer.confirm(f"{verb.capitalize()} {counted(len(preview.ids), 'run')}?", abort=True, err=True)
    return preview.ids


def _print_preview(verb: str, statuses: Collection[str], preview: _Preview, as_json: bool) -> None:
    from wakeboard.cli.support.tables import print_lines

    accepted = [run for run in preview.runs if run.status in statuses]
    refused = [run for run in preview.runs if run.status not in statuses]
    missing = sorted({*preview.ids} - {run.id for run in preview.runs})
    if as_json:
        print_json(accepted)
    else:
        print_lines(list(_preview_lines(accepted, preview.now)))
    for run in refused[:MAX_MESSAGES]:
        print_error(f"run {run.id} would be refused: it is {run.status}.")
    for run_id in missing[:MAX_MESSAGES]:
        print_error(f"run {run_id} would be refused: there is no such run.")
    if not as_json:
        print_message(f"would {verb} {counted(len(accepted), 'run')}; nothing was changed.")
    if refused or missing:
        raise typer.Exit(1)


def _preview_lines(runs: Sequence[RunRow], now: datetime) -> Iterator[str]:
    """The number of runs for each status and schedule or job type, then the newest runs."""
    from wakeboard.cli.support.run_table import RUN_COLUMNS, run_cells
    from wakeboard.cli.support.tables import table, terminal_width

    groups = Counter((run.status, run.schedule, run.job_type) for run in runs)
    for (status, schedule, job_type), count in groups.most_common(SAMPLE_SIZE):
        of_schedule = f"of {one_line(schedule)}, job type" if schedule else "of job type"
        yield f"{counted(count, f'{status} run')} {of_schedule} {one_line(job_type)}"
    if len(groups) > SAMPLE_SIZE:
        yield f"… and {counted(len(groups) - SAMPLE_SIZE, 'other group')}"
    if runs:
        for line in table(RUN_COLUMNS, [run_cells(run, now) for run in runs[:SAMPLE_SIZE]], terminal_width()):
            yield line.plain
    if len(runs) > SAMPLE_SIZE:
        yield f"… and {counted(len(runs) - SAMPLE_SIZE, 'other run')}"


# -- results -----------------------------------------------------------------------------------------------------------


async def _apply(
    session: CommandSession, action: RunAction, ids: Sequence[int], payload: Any, reason: str
) -> list[Answer | Replayed]:
    answers: list[Answer | Replayed] = []
    for start in range(0, len(ids), BATCH_SIZE):
        answers += await action.apply(session.store, ids[start : start + BATCH_SIZE], payload, reason)
    return answers


def _print_answers(action: RunAction, answers: Sequence[Answer | Replayed]) -> None:
    if not answers:
        print_message("no run matches; nothing was changed.")
    for answer in answers[:MAX_MESSAGES]:
        if _refused(answer):
            print_error(f"run {answer.id}: {answer.answer}.")
        else:
            new_id = getattr(answer, "new_id", None)
            as_new = f" as run {new_id}" if new_id else ""
            print_message(f"run {answer.id} {action.done.get(answer.answer, answer.answer)}{as_new}.")
    if len(answers) > MAX_MESSAGES:
        refused = sum(_refused(answer) for answer in answers)
        print_message(f"… {counted(len(answers), 'run')} in total, {refused} refused.")
