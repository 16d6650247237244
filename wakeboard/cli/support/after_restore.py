"""What `wakeboard check --after-restore` says: what may run twice, what is gone, what is left to do."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import typer

from wakeboard.cli.support.output import print_json, print_message
from wakeboard.cli.support.session import with_database
from wakeboard.cli.support.tables import Column, print_lines, styled, table, terminal_width
from wakeboard.errors import InvalidValue, MissingRight
from wakeboard.restores.rules import change_sentence, moment
from wakeboard.text.humanize import counted, counted_at_least, relative
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from rich.text import Text

    from wakeboard.cli.support.session import DatabaseSession
    from wakeboard.restores.queries import RepeatedRun, Restore, ScheduleSource

SHOWN: Final = 20  # runs in the table; --json has more
COLUMNS: Final = (
    Column("RUN", right=True),
    Column("TYPE", shrinks=True),
    Column("SCHEDULE", shrinks=True),
    Column("DUE"),
    Column("STATUS"),
    Column("AT THE BREAK"),
)
GONE: Final = (
    "enqueued runs, outcomes, pauses, limits, cancellations, retries, backfills, edits of schedules, audit rows"
)
TO_DO: Final = (
    "Stop the former server for good: a process that reaches it works on it.",
    "Enqueue again what applications recorded since then, with the same idempotency keys.",
    "Check `wakeboard pause`, `wakeboard limit` and `wakeboard audit`: later changes are gone.",
)
TO_RUN: Final = "Compare the runs that are still to run with your receivers: `wakeboard pause all` holds them back."
NOTHING: Final = "no failover or restore waits for an acknowledgement."


def after_restore(reason: str, *, yes: bool, as_json: bool) -> None:
    """Reports, and acknowledges once the user has confirmed. Exits with 1 if that is left to do."""
    restore, now = with_database(_read)
    if restore is None:
        if as_json:
            print_json({"restore": None, "acknowledged": 0})
        else:
            print_message(NOTHING)
        return
    if not as_json:
        print_lines(list(report_lines(restore, now)))
    reason = _confirmed(reason, yes=yes, as_json=as_json)
    acknowledged = with_database(lambda session: _acknowledge(session, restore, reason)) if reason else 0
    if as_json:
        print_json({"restore": restore, "acknowledged": acknowledged})
    elif acknowledged:
        print_message(f"acknowledged {counted(acknowledged, 'server change')}.")
    if not acknowledged:
        raise typer.Exit(1)


async def _read(session: DatabaseSession) -> tuple[Restore | None, datetime]:
    from wakeboard.restores.queries import read_restore

    with suppress(MissingRight):  # a viewer reads only
        await session.store.acknowledge_server_changes(0)  # records the change, if nothing has yet
    return await read_restore(session.conn), session.now


async def _acknowledge(session: DatabaseSession, restore: Restore, reason: str) -> int:
    return await session.store.acknowledge_server_changes(max(each.id for each in restore.changes), reason)


def _confirmed(reason: str, *, yes: bool, as_json: bool) -> str:
    """The reason, once the user has confirmed; "": there is no user to ask. Raises typer.Abort."""
    if yes and not reason.strip():
        raise InvalidValue("the audit log records why this is acknowledged: add --reason TEXT")
    if yes:
        return reason
    if as_json or not sys.stdin.isatty():
        if not as_json:
            print_message("nothing was changed. To acknowledge it, add --yes --reason TEXT.")
        return ""
    typer.confirm("Acknowledge it?", abort=True, err=True)
    return reason.strip() or typer.prompt("Why, for the audit log", err=True)


def report_lines(restore: Restore, now: datetime) -> Iterator[Text | str]:
    """The report, line by line."""
    for change in restore.changes:
        yield styled("fail", f"  {change_sentence(change)}")
    yield from ("", *_repeated(restore, now), "", *_gone(restore), "", "Schedules come back from their sources:")
    yield from (f"  {_source_line(each, now)}" for each in restore.sources)
    if not restore.sources:
        yield "  there are none."
    waiting = () if all(run.has_started_again for run in restore.runs) else (TO_RUN,)
    yield from ("", "To do:", *(f"  - {each}" for each in (*waiting, *TO_DO)), "")


def _repeated(restore: Restore, now: datetime) -> Iterator[Text | str]:
    if not restore.runs:
        yield "No run may run twice."
        return
    many = counted_at_least(len(restore.runs), "run", more=restore.more)
    started = sum(run.had_started for run in restore.runs)
    again = sum(run.has_started_again for run in restore.runs)
    yield f"{many} may run twice, of which {started} were executing at the last commit that is kept."
    yield f"{again} have started again since then, {len(restore.runs) - again} are still to run."
    if restore.newest.paused_at and not started:
        yield "All was paused: they run twice only if the former server was resumed and ran them."
    lines = table(COLUMNS, [_cells(run, now) for run in restore.runs[:SHOWN]], terminal_width())
    yield from lines
    if len(restore.runs) > SHOWN:
        yield f"… and {len(restore.runs) - SHOWN:,} more: --json lists them."


def _cells(run: RepeatedRun, now: datetime) -> tuple[str | Text, ...]:
    schedule = one_line(run.schedule or "-")
    before = "executing" if run.had_started else "waiting"
    return str(run.id), one_line(run.job_type), schedule, relative(run.scheduled_for, now), styled(run.status), before


def _gone(restore: Restore) -> Iterator[str]:
    newest, kept = restore.newest, min(each.kept_until for each in restore.changes)
    yield f"Gone, if it was committed after {moment(kept)}: {GONE}."
    if newest.run_id is not None and newest.run_enqueued_at is not None:
        yield f"  The newest run that is kept is {newest.run_id}, enqueued at {moment(newest.run_enqueued_at)}."
    if newest.audit_action is not None and newest.audit_at is not None:
        yield f"  The newest action that is kept is {one_line(newest.audit_action)}, at {moment(newest.audit_at)}."
    again, last = sum(each.ids_again for each in restore.changes), min(each.kept_id for each in restore.changes)
    many = f"At least {counted(again, 'run id')}" if again else f"Run ids after {last}"
    yield f"  {many} can come twice: name runs by their uuid."


def _source_line(each: ScheduleSource, now: datetime) -> str:
    kind = each.source.partition(":")[0]
    how = {
        "k8s": "the operator applies them again within a minute",
        "app": "the application creates and changes them again",
    }.get(kind, "`wakeboard up` applies them again at once; otherwise run `wakeboard apply`")
    synced = relative(each.last_synced_at, now)
    return f"{one_line(each.source)}: {counted(each.schedules, 'schedule')}, last synced {synced}; {how}."
