"""What `wakeboard import` has read, what becomes of it, and the files that it writes."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from wakeboard.errors import InvalidSchedule, Refused
from wakeboard.imports.rules.check import compare_ticks
from wakeboard.imports.rules.cron_job import import_cron_job, suspended_cron_job
from wakeboard.imports.rules.crontab_line import import_crontab_line
from wakeboard.imports.rules.options import POOL_TIMEOUT_S
from wakeboard.schedules.rules.spec_document import yaml_text
from wakeboard.views.rules.json_types import iso

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from wakeboard.imports.cron_jobs import FoundCronJob
    from wakeboard.imports.rules.check import TickComparison
    from wakeboard.imports.rules.crontab import CrontabLine
    from wakeboard.imports.rules.imported_schedule import ImportedSchedule
    from wakeboard.imports.rules.options import ImportOptions

SETTINGS_FILE = "wakeboard.env"  # `wakeboard up FOLDER` reads it


@dataclass(slots=True, kw_only=True)
class Candidate:
    """A CronJob or a line of a crontab. Either `imported`, or `reasons` say why it cannot be imported."""

    where: str
    name: str
    imported: ImportedSchedule | None = None
    reasons: tuple[str, ...] = ()
    source_text: str | None = None
    comparison: TickComparison | None = None
    files: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRow:
    """One CronJob, or one line of a crontab.

    `where`: `file:line`, or `the cluster`. `reasons`: why it cannot be imported; none if it can. `maps`: its fields and
    what they became. `changes`: a sentence for each difference in meaning. `files`: what was written for it.
    `job_schedule`: the JobSchedule, or null. `command`: for a crontab, what WAKEBOARD_COMMANDS of the workers needs.
    `ticks` and `differences`: with --check, its next ticks, and a sentence for each difference.
    """

    where: str
    schedule: str
    reasons: list[str]
    maps: list[dict[str, str]]
    changes: list[str]
    files: list[str]
    job_schedule: dict[str, Any] | None
    command: dict[str, Any] | None
    ticks: list[str] | None
    differences: list[str] | None


def row_of(candidate: Candidate) -> ImportRow:
    """The candidate for `--json`."""
    imported, comparison = candidate.imported, candidate.comparison
    return ImportRow(
        where=candidate.where,
        schedule=candidate.name,
        reasons=list(candidate.reasons),
        maps=[{"from": each.source, "to": each.target} for each in imported.maps] if imported else [],
        changes=list(imported.changes) if imported else [],
        files=candidate.files,
        job_schedule=imported.document() if imported else None,
        command=imported.command if imported else None,
        ticks=[iso(tick) for tick in comparison.ticks] if comparison else None,
        differences=list(comparison.differences) if comparison else None,
    )


def cron_job_candidates(
    found: Iterable[FoundCronJob], namespaces: Collection[str], options: ImportOptions
) -> list[Candidate]:
    """A candidate for each CronJob of these namespaces (none: of all). Of two with one name the second has reasons."""
    candidates: list[Candidate] = []
    places: dict[str, str] = {}
    for each in found:
        namespace, own_name = _names(each.value)
        if namespaces and namespace not in namespaces:
            continue
        name = f"{namespace}/{own_name}"
        candidate = Candidate(where=each.where, name=name, source_text=each.text or _dumped(each))
        try:
            candidate.imported = import_cron_job(each.value, options)
        except InvalidSchedule as error:
            candidate.reasons = error.problems
        if name in places:
            candidate.imported = None
            candidate.reasons = (f"it is also declared in {places[name]}, which is imported; remove one of them",)
        places.setdefault(name, each.where)
        candidates.append(candidate)
    return candidates


def _names(cron_job: dict[str, Any]) -> tuple[str, str]:
    """The namespace and the name to show, also of an object that is not valid."""
    metadata = cron_job.get("metadata")
    parts = cast("dict[str, Any]", metadata) if isinstance(metadata, dict) else {}
    return str(parts.get("namespace") or "default"), str(parts.get("name") or parts.get("generateName") or "(no name)")


def _dumped(found: FoundCronJob) -> str:
    return yaml_text(suspended_cron_job(found.value))


def crontab_candidates(
    lines: Iterable[tuple[str, CrontabLine]], namespace: str | None, options: ImportOptions
) -> list[Candidate]:
    """A candidate for each entry of crontabs, given with the name of their file."""
    candidates: list[Candidate] = []
    taken: set[str] = set()
    for file, line in lines:
        candidate = Candidate(where=f"{file}:{line.number}", name="")
        try:
            candidate.imported = import_crontab_line(line, options, namespace=namespace, taken=taken)
            candidate.name = candidate.imported.full_name
            taken.add(candidate.imported.name)
        except InvalidSchedule as error:
            candidate.reasons = error.problems
        candidates.append(candidate)
    return candidates


def compare_all(candidates: Iterable[Candidate], options: ImportOptions) -> None:
    """Adds the comparison of ticks to each candidate that can be imported."""
    for candidate in candidates:
        if candidate.imported is not None:
            candidate.comparison = compare_ticks(candidate.imported, options.now)


def planned_files(candidates: Sequence[Candidate]) -> dict[Path, str]:
    """The files by their path in the folder: two for each CronJob, or one for each line and the workers' settings."""
    files: dict[Path, str] = {}
    commands: dict[str, Any] = {}
    longest_s = 0
    for candidate in candidates:
        imported = candidate.imported
        if imported is None:
            continue
        place = Path(imported.namespace or "")
        own = {place / f"{imported.name}.jobschedule.yaml": yaml_text(imported.document())}
        if imported.command is None:
            own = {place / f"{imported.name}.cronjob.yaml": candidate.source_text or "", **own}
        else:
            commands[imported.name] = imported.command
            longest_s = max(longest_s, imported.spec["timeoutSeconds"])
        candidate.files = [str(path) for path in own]
        files |= own
    if commands:
        longest = f"WAKEBOARD_MAX_TIMEOUT_SECONDS={longest_s}\n" if longest_s > POOL_TIMEOUT_S else ""
        files[Path(SETTINGS_FILE)] = f"WAKEBOARD_COMMANDS={json.dumps(commands)}\n{longest}"
    return files


def write_files(folder: Path, files: dict[Path, str], *, force: bool) -> int:
    """Writes the files that differ, and returns how many. A repeat writes none.

    Raises Refused, before it writes any, if a file exists with another content and `force` is False, or if the folder
    of a namespace is a link: what it points to may be anywhere.
    """
    differing = {folder / path: text for path, text in files.items() if _content(folder / path) != text}
    existing = [str(path) for path in differing if os.path.lexists(path)]
    if existing and not force:
        more = f" and {len(existing) - 1} more" if len(existing) > 1 else ""
        raise Refused(f"{existing[0]}{more} exists with another content; --force replaces it. Nothing was written.")
    for parent in {path.parent for path in differing} - {folder}:
        if parent.is_symlink():
            raise Refused(f"{parent} is a link; remove it, or write into another folder. Nothing was written.")
    for path, text in differing.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, text)
    return len(differing)


def _content(path: Path) -> str | None:
    try:
        return path.read_bytes().decode() if path.is_file() and not path.is_symlink() else None
    except (OSError, UnicodeDecodeError):
        return None


def _write(path: Path, text: str) -> None:
    """All or nothing; a link is replaced, and what it points to stays."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, prefix=".import-", delete=False) as file:
        file.write(text)
    umask = os.umask(0)
    os.umask(umask)
    Path(file.name).chmod(0o666 & ~umask)
    Path(file.name).replace(path)
