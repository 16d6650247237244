"""The command `wakeboard apply`: creates, updates and removes the schedules of a folder of YAML."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wakeboard.cli.support.options import AsJson, read_path
from wakeboard.cli.support.output import print_error, print_json, print_message
from wakeboard.cli.support.session import with_database
from wakeboard.cli.support.tables import print_lines
from wakeboard.errors import InvalidSchedule, InvalidValue
from wakeboard.limits.calls import declare_limits

if TYPE_CHECKING:
    from wakeboard.cli.support.session import DatabaseSession
    from wakeboard.manifests import Manifests
    from wakeboard.schedules.desired_schedule import DesiredSchedule
    from wakeboard.schedules.rules.job_schedule import JobSchedule

STANDARD_INPUT = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What the command changed, or with --dry-run would change. Schedules are listed as namespace/name.

    `missing`: schedules that are no longer in the folder and were not removed. `conflicts`: schedules that other
    processes changed or kept locked at the same time; apply again. `failed`: schedules whose ticks cannot be computed,
    or whose name an application has, and why. `pending_removal`: why a removal needs confirmation, or null.
    `duplicates`: schedules of the folder with other sources that have a schedule of the same name; all of them run.
    `limits`: the limit keys whose declarations changed: set, removed, or kept because an administrator has set another
    limit; and those that another transaction has locked: apply again. `differences`: with --dry-run, of each schedule
    that would be updated the lines of YAML that would go (-) and come (+).
    """

    source: str
    dry_run: bool
    created: list[str]
    updated: list[str]
    unchanged: list[str]
    removed: list[str]
    missing: list[str]
    conflicts: list[str] = field(default_factory=list[str])
    failed: dict[str, str] = field(default_factory=dict[str, str])
    pending_removal: str | None = None
    duplicates: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    limits: dict[str, str] = field(default_factory=dict[str, str])
    differences: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    @property
    def complete(self) -> bool:
        """Everything in the folder was applied."""
        locked = "locked" in self.limits.values()
        return not (self.failed or self.conflicts or self.pending_removal or locked)


EXAMPLES = (
    "wakeboard apply schedules/ --dry-run      show what would change",
    "wakeboard apply schedules/",
    "wakeboard apply schedules/ --prune        also remove schedules that are no longer in the folder",
)


def command(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", parser=read_path, help="A folder of YAML files, one file, or - for standard input."
        ),
    ],
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove schedules that are no longer in the folder.", show_default=False)
    ] = False,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="The source is file:NAME. The default is the folder's name.")
    ] = None,
    allow_empty: Annotated[
        bool,
        typer.Option(
            "--allow-empty",
            help="With --prune: the folder may declare nothing, which removes all schedules of the source.",
            show_default=False,
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change and change nothing.", show_default=False)
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Create and update the JobSchedules and limits of a folder.

    The schedules belong to the source file:NAME; schedules of other sources are not changed. If a file is invalid,
    nothing is changed. --prune refuses a folder that declares nothing, unless --allow-empty is there. A removal of more
    than ten schedules that are more than a fifth of the source's needs `wakeboard confirm removal`.
    """
    manifests = _load(folder)
    if prune and not allow_empty and not manifests.schedules and manifests.limits is None:
        raise InvalidValue(
            f"{folder} declares nothing, and --prune would remove all schedules of the source: name the folder with"
            " them, or add --allow-empty to remove them."
        )
    source = f"file:{name or _name_of(folder)}"
    operation = _preview if dry_run else _apply
    result = with_database(lambda session: operation(session, source, manifests, prune))
    _print_past(manifests.schedules, {*result.created, *result.updated})
    if as_json:
        print_json(result)
    else:
        _print(result)
    if not result.complete:
        raise typer.Exit(1)


def _name_of(folder: Path) -> str:
    if str(folder) == STANDARD_INPUT:
        raise InvalidValue("standard input has no name for the source: add --name NAME.")
    resolved = folder.resolve()
    return resolved.stem if resolved.is_file() else resolved.name


def _load(folder: Path) -> Manifests:
    """What the folder declares. Raises InvalidSchedule with one sentence for each problem."""
    from wakeboard.manifests import load_folder, load_stream

    from_stdin = str(folder) == STANDARD_INPUT
    manifests = load_stream(sys.stdin.buffer, "standard input") if from_stdin else load_folder(folder)
    for note in manifests.notes:
        print_error(f"note: {note}")
    if manifests.problems:
        raise InvalidSchedule(*manifests.problems, "Nothing was changed.")
    return manifests


async def _apply(session: DatabaseSession, source: str, manifests: Manifests, prune: bool) -> Applied:
    from wakeboard.dependencies.queries import missing_parents
    from wakeboard.manifests import declared_limits
    from wakeboard.schedules.desired_schedule import desired_from_files
    from wakeboard.schedules.sync import sync
    from wakeboard.settings import read_settings
    from wakeboard.views.queries.listings import sources_with_same_name

    desired = desired_from_files(manifests.schedules)
    limits = declared_limits(manifests, removes=prune)
    changed = {} if limits is None else await declare_limits(session.store, source, limits.rows(), program="cli")
    misfire_grace = read_settings().misfire_grace
    report = await sync(session.store, source, desired, prune=prune, misfire_grace=misfire_grace)
    for problem in await missing_parents(session.conn, {each.full_name for each in desired}):
        print_error(f"note: {problem}")
    return Applied(
        source=report.source,
        dry_run=False,
        created=sorted(report.created),
        updated=sorted(report.updated),
        unchanged=sorted(report.unchanged),
        removed=report.removed,
        missing=report.missing,
        conflicts=report.contended,
        failed=report.failed,
        pending_removal=report.pending_removal,
        duplicates=sources_with_same_name(
            await session.listings.schedules_called([each.key for each in desired]), source
        ),
        limits=changed,
    )


async def _preview(session: DatabaseSession, source: str, manifests: Manifests, prune: bool) -> Applied:
    from wakeboard.limits.queries import declared_limit_rows
    from wakeboard.manifests import declared_limits
    from wakeboard.schedules.calls import list_definitions
    from wakeboard.schedules.desired_schedule import desired_from_files
    from wakeboard.views.queries.listings import sources_with_same_name

    desired = desired_from_files(manifests.schedules)
    limits = declared_limits(manifests, removes=prune)
    declared = await declared_limit_rows(session.conn, source)
    wanted = declared if limits is None else {str(row["key"]): row for row in limits.rows()}
    known = {(each.namespace, each.name): each for each in await list_definitions(session.store, source)}
    current = {key for key, each in known.items() if not each.removed}
    same = {each.key for each in desired if each.is_synced(known.get(each.key))}
    missing = sorted(f"{namespace}/{name}" for namespace, name in current - {each.key for each in desired})
    _print_missing_parents(desired, set() if prune else current)
    called = await session.listings.schedules_called([each.key for each in desired])
    failed = await session.listings.taken_names([each.key for each in desired])
    updated = [each for each in desired if each.key in current - same and each.full_name not in failed]
    return Applied(
        source=source,
        dry_run=True,
        created=sorted(each.full_name for each in desired if each.key not in current and each.full_name not in failed),
        updated=sorted(each.full_name for each in updated),
        failed=failed,
        unchanged=sorted(each.full_name for each in desired if each.key in same and each.full_name not in failed),
        removed=missing if prune else [],
        missing=[] if prune else missing,
        duplicates=sources_with_same_name(called, source),
        limits={
            key: "set" if key in wanted else "removed"
            for key in sorted({*wanted, *declared})
            if wanted.get(key) != declared.get(key)
        },
        differences={each.full_name: await _difference(session, source, each) for each in updated},
    )


def _print_missing_parents(desired: Sequence[DesiredSchedule], kept: set[tuple[str, str]]) -> None:
    """The notes of `_apply` about `after`. `kept`: the stored schedules of the source that would remain."""
    from wakeboard.dependencies.rules.graph import missing_parent

    existing = kept | {each.key for each in desired}
    for each in sorted(desired, key=lambda each: each.full_name):
        for entry in each.spec.after or ():
            if (each.namespace, entry.schedule) not in existing:
                print_error(f"note: {missing_parent(each.full_name, f'{each.namespace}/{entry.schedule}')}")


def _print_past(schedules: Sequence[JobSchedule], changed: set[str]) -> None:
    """The notes about changed schedules that have no tick, perhaps because a year is wrong."""
    for each in schedules:
        for key, moment in (("at", each.spec.at), ("endsAt", each.spec.ends_at)):
            if each.full_name in changed and moment is not None and datetime.fromisoformat(moment) <= datetime.now(UTC):
                print_error(f"note: {each.full_name} has no further tick: its {key} ({moment}) has passed.")


async def _difference(session: DatabaseSession, source: str, desired: DesiredSchedule) -> list[str]:
    """The lines of YAML by which a schedule differs from the stored one; none if its labels or zone data do."""
    from difflib import unified_diff

    from wakeboard.schedules.desired_schedule import definition_row
    from wakeboard.schedules.rules.spec_document import spec_document, yaml_text
    from wakeboard.views.queries.schedule_page import schedules_named

    stored = [row for row in await schedules_named(session.conn, *desired.key, None) if row["source"] == source]
    rows = (stored[0], definition_row(desired, None, session.now)) if stored else ()
    before, after = ([yaml_text(spec_document(row)[0]).splitlines() for row in rows] or [[], []])[:2]
    return [line for line in unified_diff(before, after, n=0) if not line.startswith("@@")][2:]


def _print_schedules(result: Applied, would: str) -> None:
    for verb in ("created", "updated", "removed"):
        for name in getattr(result, verb):
            print_message(f"{would}{verb}: {name}")
            print_lines([f"  {line}" for line in result.differences.get(name, [])])


def _print(result: Applied) -> None:
    would = "would be " if result.dry_run else ""
    _print_schedules(result, would)
    for key, answer in result.limits.items():
        if answer == "locked":
            print_error(f"limit {key}: another transaction has locked it; apply again.")
        else:
            print_message(f"limit {would}{answer}: {key}")
    for name, problem in result.failed.items():
        print_error(f"{name}: {problem}")
    for name, sources in result.duplicates.items():
        print_error(f"note: {name} is also a schedule of {', '.join(sources)}; both run. `--name` sets the source.")
    for name in result.conflicts:
        print_error(f"{name}: another process has changed or locked it; apply again.")
    if result.pending_removal:
        print_error(result.pending_removal)
    elif result.missing:
        print_message(f"no longer in the folder (--prune removes them): {', '.join(result.missing)}")
    print_message(f"{result.source}: {_summary(result)}{'; nothing was changed' if result.dry_run else ''}.")


def _summary(result: Applied) -> str:
    would = "would be " if result.dry_run else ""
    labels = {"created": would, "updated": would, "removed": would, "unchanged": ""}
    counts = {verb: len(getattr(result, verb)) for verb in labels}
    return ", ".join(f"{count} {labels[verb]}{verb}" for verb, count in counts.items() if count) or (
        "nothing was applied" if result.failed else "no schedules"
    )
