"""The command that brings a folder of YAML to the board."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wakeboard.cli.echo import AsJson, complain, print_json, say
from wakeboard.cli.help_examples import examples
from wakeboard.cli.path_args import read_place
from wakeboard.cli.session import open_store
from wakeboard.errors import InvalidValue

if TYPE_CHECKING:
    from wakeboard.cli.session import Session
    from wakeboard.maintenance.desired_schedule import DesiredSchedule
    from wakeboard.maintenance.sync import SyncReport

commands = typer.Typer()

STANDARD_INPUT = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What applying a folder did, or with --dry-run would do, as names namespace/name.

    `missing`: on the board and no longer in the folder, and not removed. `held`: why a removal waits for a person.
    `failed`: why ticks cannot be computed, by name; the last good spec stays in force. `unsettled`: somebody else kept
    changing it meanwhile.
    """

    source: str
    dry_run: bool
    created: list[str]
    updated: list[str]
    unchanged: list[str]
    removed: list[str]
    missing: list[str]
    unsettled: list[str] = field(default_factory=list[str])
    failed: dict[str, str] = field(default_factory=dict[str, str])
    held: str | None = None

    @property
    def worked(self) -> bool:
        """Everything that was asked for is done."""
        return not (self.failed or self.unsettled or self.held)


@commands.command(
    "apply",
    epilog=examples(
        "wakeboard apply schedules/ --dry-run      what would change",
        "wakeboard apply schedules/",
        "wakeboard apply schedules/ --prune        and remove what is not there any more",
    ),
)
def apply(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", parser=read_place, help="A folder of YAML files, one file, or - for standard input."
        ),
    ],
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove schedules that are no longer declared.", show_default=False)
    ] = False,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the source file:NAME; the folder's own unless said.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing; show what would.", show_default=False)
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Bring the JobSchedules in a folder to the board.

    Schedules belong to the source file:NAME; those of other sources are never touched. When any of the files is wrong,
    nothing is changed. A removal of very many at once waits for `wakeboard confirm removal`.
    """
    declared = _declared_in(folder)
    source = f"file:{name or _name_of(folder)}"
    if dry_run:
        done = open_store(lambda session: _preview(session, source, declared, prune))
    else:
        done = open_store(lambda session: _apply(session, source, declared, prune))
    if as_json:
        print_json(done)
    else:
        _tell(done)
    if not done.worked:
        raise typer.Exit(1)


def _name_of(folder: Path) -> str:
    if str(folder) == STANDARD_INPUT:
        raise InvalidValue("standard input has no name to use as the source: add --name NAME.")
    resolved = folder.resolve()
    return resolved.stem if resolved.is_file() else resolved.name


def _declared_in(folder: Path) -> list[DesiredSchedule]:
    """What the folder declares. Raises InvalidSchedule with a sentence for each problem."""
    from wakeboard.errors import InvalidSchedule
    from wakeboard.local.manifests import load_folder, load_stream
    from wakeboard.maintenance.desired_schedule import declared_in_files

    manifests = (
        load_stream(sys.stdin.buffer, "standard input") if str(folder) == STANDARD_INPUT else load_folder(folder)
    )
    for note in manifests.notes:
        complain(f"note: {note}")
    if manifests.problems:
        raise InvalidSchedule(*manifests.problems, "Nothing was changed.")
    return declared_in_files(manifests.schedules)


async def _apply(session: Session, source: str, declared: Sequence[DesiredSchedule], prune: bool) -> Applied:
    from datetime import timedelta

    from wakeboard.maintenance.sync import sync
    from wakeboard.settings import read_settings

    misfire_grace = timedelta(seconds=read_settings().misfire_grace_seconds)
    report = await sync(session.store, source, declared, prune=prune, misfire_grace=misfire_grace)
    return _applied(report)


def _applied(report: SyncReport) -> Applied:
    return Applied(
        source=report.source,
        dry_run=False,
        created=sorted(report.created),
        updated=sorted(report.updated),
        unchanged=sorted(report.unchanged),
        removed=report.removed,
        missing=report.missing,
        unsettled=report.unsettled,
        failed=report.failed,
        held=report.held,
    )


async def _preview(session: Session, source: str, declared: Sequence[DesiredSchedule], prune: bool) -> Applied:
    known = {(each.namespace, each.name): each for each in await session.store.list_definitions(source)}
    living = {key for key, each in known.items() if not each.removed}
    same = {each.key for each in declared if each.is_on_store(known.get(each.key))}
    gone = sorted(f"{namespace}/{name}" for namespace, name in living - {each.key for each in declared})
    return Applied(
        source=source,
        dry_run=True,
        created=sorted(each.full_name for each in declared if each.key not in living),
        updated=sorted(each.full_name for each in declared if each.key in living - same),
        unchanged=sorted(each.full_name for each in declared if each.key in same),
        removed=gone if prune else [],
        missing=[] if prune else gone,
    )


def _tell(done: Applied) -> None:
    for word in ("created", "updated", "removed"):
        for name in getattr(done, word):
            say(f"{'would be ' if done.dry_run else ''}{word}: {name}")
    for name, why in done.failed.items():
        complain(f"{name}: {why}")
    for name in done.unsettled:
        complain(f"{name}: others kept changing it; apply again.")
    if done.missing and not done.held:
        say(f"not declared any more (--prune removes them): {', '.join(done.missing)}")
    if done.held:
        complain(done.held)
    say(f"{done.source}: {_summary(done)}{'; nothing was changed' if done.dry_run else ''}.")


def _summary(done: Applied) -> str:
    counts = {word: len(getattr(done, word)) for word in ("created", "updated", "removed", "unchanged")}
    would = "would be " if done.dry_run else ""
    shown = (f"{count} {would if word != 'unchanged' else ''}{word}" for word, count in counts.items() if count)
    return ", ".join(shown) or "no schedules"
