"""The command `wakeboard import`: JobSchedules for CronJobs and crontabs, a report, and a comparison of ticks."""

from __future__ import annotations

import pwd
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wakeboard.cli.support.options import AsJson, read_path
from wakeboard.cli.support.output import print_error, print_json, print_message
from wakeboard.errors import InvalidValue, WakeboardError
from wakeboard.imports.rules.options import DEFAULT_TIMEOUT_S, LONGEST_TIMEOUT_S
from wakeboard.process.output import write_line
from wakeboard.text.humanize import counted, quoted_list

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wakeboard.cli.support.import_plan import Candidate
    from wakeboard.imports.rules.crontab import CrontabLine
    from wakeboard.imports.rules.options import ImportOptions

STANDARD_INPUT = "-"
SHOWN_NAMES = 5

EXAMPLES = (
    "wakeboard import --all-namespaces            report on the CronJobs of a cluster",
    "wakeboard import manifests/ --check          compare their next ticks, too",
    "wakeboard import manifests/ --output jobs/   write the files",
    "crontab -l | wakeboard import - --crontab    report on a crontab",
)


def command(
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="PATH",
            parser=read_path,
            help="A file or a folder of manifests, or - for standard input. Without it: kubectl's cluster.",
            show_default=False,
        ),
    ] = None,
    namespaces: Annotated[
        list[str] | None,
        typer.Option(
            "--namespace",
            "-n",
            metavar="NAMESPACE",
            help="Only CronJobs of this namespace; can be repeated. With --crontab: the namespace of the JobSchedules.",
            show_default=False,
        ),
    ] = None,
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="All namespaces of the cluster.", show_default=False)
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FOLDER", parser=read_path, help="Write the files into it.", show_default=False
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="With --output: replace files that differ.", show_default=False)
    ] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Compare the next ten ticks, and those around clock changes within a year.",
            show_default=False,
        ),
    ] = False,
    suspended: Annotated[
        bool,
        typer.Option("--suspended", help="Write every JobSchedule with suspend: true.", show_default=False),
    ] = False,
    default_zone: Annotated[
        str, typer.Option("--default-zone", metavar="ZONE", help="The time zone of schedules that name none.")
    ] = "Etc/UTC",
    timeout: Annotated[
        int,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            min=1,
            max=LONGEST_TIMEOUT_S,
            help="The timeout of an attempt where the source has no deadline.",
        ),
    ] = DEFAULT_TIMEOUT_S,
    queue: Annotated[
        str | None, typer.Option("--queue", metavar="NAME", help="The queue of the runs.", show_default=False)
    ] = None,
    crontab: Annotated[
        bool,
        typer.Option("--crontab", help="PATH is a crontab, in the format of `crontab -l`.", show_default=False),
    ] = False,
    with_users: Annotated[
        bool,
        typer.Option("--with-users", help="The crontab has a column for users, as in /etc/cron.d.", show_default=False),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Turn CronJobs or a crontab into JobSchedules.

    Prints a report: what maps, what changes in meaning, and what cannot be imported. Nothing is changed in a cluster.
    With --output, the same CronJob with `suspend: true` and a JobSchedule are written for each CronJob; a crontab
    becomes schedules of the job type `command`, and the commands that the workers must allow (wakeboard.env).
    docs/from-cronjob.md has an order of steps in which nothing runs twice. The exit code is 1 if something cannot be
    read or imported, or with --check if ticks differ.
    """
    from wakeboard.cli.support.import_plan import compare_all, planned_files, row_of, write_files
    from wakeboard.imports.rules.options import ImportOptions

    options = ImportOptions(
        now=datetime.now(UTC), default_zone=default_zone, timeout_s=timeout, queue=queue, suspended=suspended
    )
    _require_valid(options, path, crontab=crontab, with_users=with_users, all_namespaces=all_namespaces)
    wanted = namespaces or []
    problems: list[str] = []
    if crontab:
        assert path is not None, "checked by _require_valid"
        candidates = _from_crontab(path, wanted, options, problems, with_users=with_users)
    else:
        candidates = _from_cron_jobs(path, wanted, options, problems, all_namespaces=all_namespaces)
    if check:
        compare_all(candidates, options)
    files = planned_files(candidates) if output is not None else {}
    written = write_files(output, files, force=force) if output is not None else 0
    is_partial = bool(problems) or any(each.reasons for each in candidates)
    if as_json:
        print_json([row_of(candidate) for candidate in candidates])
    else:
        _print(candidates, is_partial=is_partial)
        if output is not None:
            _print_written(output, written, len(files), is_partial=is_partial)
        else:
            _print_hint(check=check)
    for problem in problems:
        print_error(problem)
    if is_partial or any(each.comparison and each.comparison.differences for each in candidates):
        raise typer.Exit(1)


def _require_valid(
    options: ImportOptions, path: Path | None, *, crontab: bool, with_users: bool, all_namespaces: bool
) -> None:
    from wakeboard.ticks.zones import known_zones, unknown_zone

    if options.default_zone not in known_zones():
        raise InvalidValue(f"{unknown_zone(f'--default-zone {options.default_zone[:64]!r}', 'Europe/Lisbon')}.")
    if with_users and not crontab:
        raise InvalidValue("--with-users describes a crontab: add --crontab.")
    if crontab and path is None:
        raise InvalidValue(
            "--crontab needs a file, or - for standard input: `crontab -l | wakeboard import - --crontab`."
        )
    if all_namespaces and path is not None:
        raise InvalidValue("--all-namespaces is for a cluster; a file or folder is read as a whole.")


def _from_cron_jobs(
    path: Path | None, namespaces: Sequence[str], options: ImportOptions, problems: list[str], *, all_namespaces: bool
) -> list[Candidate]:
    from wakeboard.cli.support.import_plan import cron_job_candidates
    from wakeboard.cli.support.kubectl import cluster_cron_jobs
    from wakeboard.imports.cron_jobs import cron_jobs_in, cron_jobs_of

    if path is None:
        read = cluster_cron_jobs(namespaces, all_namespaces=all_namespaces)
    elif str(path) == STANDARD_INPUT:
        read = cron_jobs_of(sys.stdin.buffer, "standard input")
    else:
        read = cron_jobs_in(path)
    problems += read.problems
    if read.others:
        print_error(f"note: {counted(read.others, 'other object')} passed by")
    if path is not None and not read.found and not read.problems:
        where = "standard input" if str(path) == STANDARD_INPUT else path
        print_error(f"note: {where} has no CronJob; if it is a crontab, add --crontab")
    return cron_job_candidates(read.found, namespaces, options)


def _from_crontab(
    path: Path, namespaces: Sequence[str], options: ImportOptions, problems: list[str], *, with_users: bool
) -> list[Candidate]:
    from wakeboard.cli.support.import_plan import crontab_candidates
    from wakeboard.imports.rules.crontab import column_of_users, read_crontab, unknown_users

    if len(namespaces) > 1:
        raise InvalidValue("--crontab takes one --namespace, that of the JobSchedules.")

    def lines() -> Iterator[tuple[str, CrontabLine]]:
        known = {user.pw_name for user in pwd.getpwall()}
        for name, text in _crontab_texts(path, problems):
            found = list(read_crontab(text, with_users=with_users))
            for unknown in unknown_users(found, known):
                known.add(unknown)  # one note is enough
                print_error(f'note: {name}: "{unknown}" is no user here; if it is a command, omit --with-users')
            if not with_users and (users := column_of_users(found, _users_here())):
                look = "look" if len(users) > 1 else "looks"
                listed = quoted_list(users[:SHOWN_NAMES])
                problems.append(f"{name}: {listed} {look} like a column of users, as in /etc/cron.d: add --with-users")
            else:
                yield from ((name, line) for line in found)

    return crontab_candidates(lines(), namespaces[0] if namespaces else None, options)


def _users_here() -> set[str]:
    """The users of this machine whose names are no programs."""
    return {user.pw_name for user in pwd.getpwall() if not shutil.which(user.pw_name)}


def _crontab_texts(path: Path, problems: list[str]) -> Iterator[tuple[str, str]]:
    """The texts of a file, of the files of a folder as cron reads them, or of standard input."""
    from wakeboard.declared.bounded_file import MAX_FILE_BYTES, Unreadable, decode, read_text

    if str(path) == STANDARD_INPUT:
        files = [path]
    elif not path.exists():
        raise WakeboardError(f"there is no file or folder {path}")
    else:  # cron ignores names with a dot
        files = sorted(each for each in path.iterdir() if "." not in each.name) if path.is_dir() else [path]
    for file in files:
        from_stdin = str(file) == STANDARD_INPUT
        name = "standard input" if from_stdin else str(file)
        try:
            text = decode(sys.stdin.buffer.read(MAX_FILE_BYTES + 1)) if from_stdin else read_text(file)
        except OSError as error:
            problems.append(f"{file}: it cannot be read: {error.strerror}")
        except Unreadable as error:
            problems.append(f"{name}:{error.line}: {error}")
        else:
            yield name, text


# -- The report --------------------------------------------------------------------------------------------------------


def _print(candidates: Sequence[Candidate], *, is_partial: bool) -> None:
    imported = [candidate for candidate in candidates if candidate.imported]
    if candidates:
        print_message(f"{len(imported)} of {len(candidates)} can be imported.")
    else:
        print_message(f"There is nothing to import{' in what could be read' if is_partial else ''}.")
    for candidate in imported:
        _print_schedule(candidate)
    _print_changes(imported)
    refused = [candidate for candidate in candidates if candidate.reasons]
    if refused:
        print_message("")
        print_message("Cannot be imported:")
    for candidate in refused:
        for reason in candidate.reasons:
            print_message(
                f"- {candidate.name} ({candidate.where}): {reason}."
                if candidate.name
                else f"- {candidate.where}: {reason}."
            )


def _print_schedule(candidate: Candidate) -> None:
    assert candidate.imported is not None, "the caller passes only these"
    print_message("")
    print_message(f"{candidate.name} ({candidate.where})")
    for each in candidate.imported.maps:
        before = "" if each.source == each.target else f"{each.source or '(not set)'} -> "
        write_line(f"  {before}{each.target}")
    if candidate.comparison:
        for difference in candidate.comparison.differences:
            write_line(f"  differs: {difference}")
        if not candidate.comparison.differences:
            write_line("  the ticks are equal")


def _print_changes(candidates: Sequence[Candidate]) -> None:
    names: dict[str, list[str]] = {}
    for candidate in candidates:
        for change in candidate.imported.changes if candidate.imported else ():
            names.setdefault(change, []).append(candidate.name)
    if names:
        print_message("")
        print_message("What changes in meaning:")
    for change, whose in names.items():
        more = f" and {len(whose) - SHOWN_NAMES} more" if len(whose) > SHOWN_NAMES else ""
        who = "all" if len(whose) == len(candidates) and len(whose) > 1 else ", ".join(whose[:SHOWN_NAMES]) + more
        print_message(f"- {change} ({who})")


def _print_written(output: Path, written: int, planned: int, *, is_partial: bool) -> None:
    print_message("")
    but = ", without what could not be read or imported" if is_partial else ""
    if not planned:
        print_message("Nothing was written.")
    elif written:
        print_message(f"{counted(written, 'file')} written to {output}{but}.")
    else:
        print_message(f"{output} is up to date{but}.")


def _print_hint(*, check: bool) -> None:
    print_message("")
    if check:
        print_message("Nothing was written; --output FOLDER writes the files.")
    else:
        print_message("Nothing was written; --output FOLDER writes the files, and --check compares ticks.")
