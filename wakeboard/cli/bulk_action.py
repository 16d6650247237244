"""Bulk actions on runs: which runs are selected, a preview of what would happen, and the results."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from wakeboard.cli.echo import complain, print_json, say
from wakeboard.cli.session import open_store
from wakeboard.cli.time_args import read_since
from wakeboard.output import write_line
from wakeboard.rules.humanize import counted
from wakeboard.rules.sanitize import one_line

if TYPE_CHECKING:
    from datetime import datetime

    from wakeboard.cli.session import Session
    from wakeboard.store.admin_api import AdminStore, Replayed
    from wakeboard.store.maintenance_api import Answer
    from wakeboard.store.queries.listings import RunRow

AT_ONCE = 1000  # runs in one statement
TOLD = 20  # runs that are told one by one
SAMPLE = 10  # runs that are shown before they are changed


@dataclass(frozen=True, slots=True)
class Selection:
    """The selected runs: these ids, or all in these states that match the filters."""

    runs: Sequence[str]
    statuses: Sequence[str]
    schedule: str | None
    job_type: str | None
    queue: str | None
    since: str | None

    @property
    def by_filter(self) -> bool:
        """Nothing is named one by one."""
        return not self.runs


@dataclass(frozen=True, slots=True)
class How:
    """The options --yes (no question), --dry-run (only the preview) and --json."""

    yes: bool
    dry_run: bool
    as_json: bool


@dataclass(frozen=True, slots=True)
class BulkAction:
    """A bulk action and the words that its command uses. `states`: runs in any other state are refused."""

    verb: str
    states: Sequence[str]
    move: Callable[[AdminStore, Sequence[int]], Awaitable[Sequence[Answer | Replayed]]]
    said: dict[str, str]  # what its answers mean


def do(action: BulkAction, selection: Selection, choices: str, how: How) -> None:
    """Acts and prints the results. Exit code 1 if a run was refused, or with --dry-run would be."""
    _require_one_way(selection, choices)
    find = _finder(selection)
    if how.dry_run:
        _rehearse(action, open_store(lambda session: _preview(session, find)), how.as_json)
        return
    ids = _confirmed(action, find) if selection.by_filter and not how.yes else open_store(find)
    answers = open_store(lambda session: _moved(session, action, ids)) if ids else []
    if how.as_json:
        print_json([{**answer._asdict(), "refused": answer.answer.startswith("refused")} for answer in answers])
    else:
        _tell(action, answers)
    if any(answer.answer.startswith("refused") for answer in answers):
        raise typer.Exit(1)


def _require_one_way(selection: Selection, choices: str) -> None:
    filters = (selection.schedule, selection.job_type, selection.queue, selection.since)
    filtered = bool(selection.statuses) or any(given is not None for given in filters)
    if selection.runs and filtered:
        raise typer.BadParameter(f"name runs, or choose them by {choices} and filters, not both", param_hint="RUN")
    if not selection.runs and not selection.statuses:
        raise typer.BadParameter(f"name runs by id or uuid, or say {choices}", param_hint="RUN")


def _finder(selection: Selection) -> Callable[[Session], Awaitable[list[int]]]:
    """The query for the selected runs. Raises InvalidValue before anything is sent."""
    from wakeboard.cli.lookup import find_runs, read_run

    runs = [read_run(text) for text in selection.runs]
    since = read_since(selection.since) if selection.since is not None else None

    async def find(session: Session) -> list[int]:
        from wakeboard.cli.filters import run_filter

        if runs:
            return await find_runs(session.reports, runs)
        wanted = await run_filter(
            session, selection.statuses, selection.schedule, selection.job_type, selection.queue, since
        )
        return await session.reports.run_ids(wanted)

    return find


# -- what would become of them -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Preview:
    """The selected runs, newest first. `ids` may contain runs that do not exist."""

    ids: list[int]
    runs: list[RunRow]
    now: datetime


async def _preview(session: Session, find: Callable[[Session], Awaitable[list[int]]]) -> _Preview:
    from wakeboard.store.queries.listings import RunFilter

    ids = await find(session)
    return _Preview(ids, await session.reports.runs(RunFilter(ids=ids), len(ids)) if ids else [], session.now)


def _confirmed(action: BulkAction, find: Callable[[Session], Awaitable[list[int]]]) -> list[int]:
    """The runs, after the user has seen and confirmed them."""
    if not sys.stdin.isatty():
        raise typer.BadParameter(
            "there is no terminal to ask on: add --yes, or --dry-run to see which runs", param_hint="--yes"
        )
    preview = open_store(lambda session: _preview(session, find))
    if preview.ids:
        for line in _shown(preview.runs, preview.now):
            write_line(line, sys.stderr)
        typer.confirm(f"{action.verb.capitalize()} {counted(len(preview.ids), 'run')}?", abort=True, err=True)
    return preview.ids


def _rehearse(action: BulkAction, preview: _Preview, as_json: bool) -> None:
    from wakeboard.cli.tables import print_lines

    fitting = [run for run in preview.runs if run.status in action.states]
    wrong = [run for run in preview.runs if run.status not in action.states]
    missing = sorted({*preview.ids} - {run.id for run in preview.runs})
    if as_json:
        print_json(fitting)
    else:
        print_lines(list(_shown(fitting, preview.now)))
    for run in wrong[:TOLD]:
        complain(f"run {run.id} would be refused: it is {run.status}.")
    for run_id in missing[:TOLD]:
        complain(f"run {run_id} would be refused: there is no such run.")
    if not as_json:
        say(f"would {action.verb} {counted(len(fitting), 'run')}; nothing was changed.")
    if wrong or missing:
        raise typer.Exit(1)


def _shown(runs: Sequence[RunRow], now: datetime) -> Iterator[str]:
    """Lines with the number of runs of each kind, and the first runs."""
    from wakeboard.cli.listings import RUN_COLUMNS, run_cells
    from wakeboard.cli.tables import table, width

    kinds = Counter((run.status, run.schedule, run.job_type) for run in runs)
    for (status, schedule, job_type), count in kinds.most_common(SAMPLE):
        of = (
            f"of {one_line(schedule)}, job type {one_line(job_type)}"
            if schedule
            else f"of job type {one_line(job_type)}"
        )
        yield f"{counted(count, f'{status} run')} {of}"
    if len(kinds) > SAMPLE:
        yield f"… and {counted(len(kinds) - SAMPLE, 'other kind')}"
    if runs:
        for line in table(RUN_COLUMNS, [run_cells(run, now) for run in runs[:SAMPLE]], width()):
            yield line.plain
    if len(runs) > SAMPLE:
        yield f"… and {counted(len(runs) - SAMPLE, 'other run')}"


# -- what became of them -----------------------------------------------------------------------------------------------


async def _moved(session: Session, action: BulkAction, ids: Sequence[int]) -> list[Answer | Replayed]:
    answers: list[Answer | Replayed] = []
    for start in range(0, len(ids), AT_ONCE):
        answers += await action.move(session.store, ids[start : start + AT_ONCE])
    return answers


def _tell(action: BulkAction, answers: Sequence[Answer | Replayed]) -> None:
    if not answers:
        say("no run matches; nothing was done.")
    for answer in answers[:TOLD]:
        if answer.answer.startswith("refused"):
            complain(f"run {answer.id}: {answer.answer}.")
        else:
            say(f"run {answer.id} {action.said.get(answer.answer, answer.answer)}{_as_new(answer)}.")
    if len(answers) > TOLD:
        refused = sum(answer.answer.startswith("refused") for answer in answers)
        say(f"… {counted(len(answers), 'run')} in all, {refused} refused.")


def _as_new(answer: Answer | Replayed) -> str:
    from wakeboard.store.admin_api import Replayed

    return f" as run {answer.new_id}" if isinstance(answer, Replayed) else ""
