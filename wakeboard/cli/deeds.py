"""A move over many runs: which ones a person means, whether they are sure, and what the board said."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from wakeboard.cli.answers import complain, print_json, say
from wakeboard.cli.visit import visit_board

if TYPE_CHECKING:
    from wakeboard.cli.visit import Visit
    from wakeboard.store.board import Answer, Board, Replayed

AT_ONCE = 1000  # runs in one statement
TOLD = 20  # runs that are told one by one


@dataclass(frozen=True, slots=True)
class Selection:
    """Which runs a person means: these ids, or all in these states that fit the filters."""

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
class Deed:
    """A move over many runs, in the words of its command."""

    verb: str
    move: Callable[[Board, Sequence[int]], Awaitable[Sequence[Answer | Replayed]]]
    said: dict[str, str]  # what its answers mean


def do(deed: Deed, selection: Selection, choices: str, yes: bool, as_json: bool) -> None:
    """Does it, and tells. Exit code 1 when the board refused anything."""
    _require_one_way(selection, choices)
    ids = visit_board(lambda visit: _chosen(visit, selection))
    if selection.by_filter and ids and not yes:
        _confirm(f"{deed.verb} {_count(ids)}?")
    answers = visit_board(lambda visit: _moved(visit, deed, ids)) if ids else []
    if as_json:
        print_json([{**_row(answer), "refused": answer.answer.startswith("refused")} for answer in answers])
    else:
        _tell(deed, answers)
    if any(answer.answer.startswith("refused") for answer in answers):
        raise typer.Exit(1)


def _require_one_way(selection: Selection, choices: str) -> None:
    filters = any((selection.statuses, selection.schedule, selection.job_type, selection.queue, selection.since))
    if selection.runs and filters:
        raise typer.BadParameter(f"name runs, or choose them by {choices} and filters, not both", param_hint="RUN")
    if not selection.runs and not selection.statuses:
        raise typer.BadParameter(f"name runs by id or uuid, or say {choices}", param_hint="RUN")


async def _chosen(visit: Visit, selection: Selection) -> list[int]:
    from wakeboard.cli.addressing import find_runs
    from wakeboard.cli.filtering import run_filter

    if selection.runs:
        return await find_runs(visit.reports, selection.runs)
    wanted = await run_filter(
        visit, selection.statuses, selection.schedule, selection.job_type, selection.queue, selection.since
    )
    return await visit.reports.run_ids(wanted)


async def _moved(visit: Visit, deed: Deed, ids: Sequence[int]) -> list[Answer | Replayed]:
    answers: list[Answer | Replayed] = []
    for start in range(0, len(ids), AT_ONCE):
        answers += await deed.move(visit.board, ids[start : start + AT_ONCE])
    return answers


def _confirm(question: str) -> None:
    if not sys.stdin.isatty():
        raise typer.BadParameter("there is no terminal to ask on: add --yes", param_hint="--yes")
    typer.confirm(question[0].upper() + question[1:], abort=True, err=True)


def _row(answer: Answer | Replayed) -> dict[str, Any]:
    return answer._asdict()


def _tell(deed: Deed, answers: Sequence[Answer | Replayed]) -> None:
    if not answers:
        say("no run fits; nothing was done.")
    for answer in answers[:TOLD]:
        if answer.answer.startswith("refused"):
            complain(f"run {answer.id}: {answer.answer}.")
        else:
            say(f"run {answer.id} {deed.said.get(answer.answer, answer.answer)}{_as_new(answer)}.")
    if len(answers) > TOLD:
        refused = sum(answer.answer.startswith("refused") for answer in answers)
        say(f"… {_count(answers)} in all, {refused} refused.")


def _as_new(answer: Answer | Replayed) -> str:
    from wakeboard.store.board import Replayed

    return f" as run {answer.new_id}" if isinstance(answer, Replayed) else ""


def _count(runs: Sequence[Any]) -> str:
    return "1 run" if len(runs) == 1 else f"{len(runs)} runs"
