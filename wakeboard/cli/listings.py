"""Lists for people: schedules, runs, limits, pauses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from wakeboard.cli.tables import Column, word
from wakeboard.rules.humanize import counted, reason_in_words, relative
from wakeboard.rules.sanitize import one_line

if TYPE_CHECKING:
    from datetime import datetime

    from wakeboard.store.queries.listings import LimitRow, PauseRow, RunRow, ScheduleRow

UTC_NAMES = {"UTC", "Etc/UTC"}

SCHEDULE_COLUMNS = (
    Column("SCHEDULE", narrows=True),
    Column("WHEN", narrows=True),
    Column("NEXT"),
    Column("LAST"),
    Column("RUNS", narrows=True),
)
RUN_COLUMNS = (
    Column("ID", right=True),
    Column("STATUS"),
    Column("RUN OF", narrows=True),
    Column("WHEN"),
    Column("TRY", right=True),
    Column("ABOUT", narrows=True),
)
LIMIT_COLUMNS = (
    Column("KEY", narrows=True),
    Column("AT ONCE", right=True),
    Column("RUNNING", right=True),
    Column("WAITING", right=True),
)
PAUSE_COLUMNS = (Column("PAUSED"), Column("SINCE"), Column("REASON", narrows=True))


def schedule_cells(row: ScheduleRow, now: datetime) -> list[str | Text]:
    """One schedule: what is not as usual stands where its next tick would."""
    return [
        f"{row.namespace}/{row.name}",
        when(row.schedule, row.time_zone),
        relative(row.next_run_at, now) if row.state == "active" else word(row.state),
        _last(row, now),
        _counts(row),
    ]


def when(schedule: str | None, time_zone: str) -> str:
    """A cron line and its zone, UTC unsaid."""
    if schedule is None:
        return "-"
    return schedule if time_zone in UTC_NAMES else f"{schedule} {time_zone}"


def _last(row: ScheduleRow, now: datetime) -> Text:
    if row.last_status is None:
        return Text("-")
    return word(row.last_status) + Text(f" {relative(row.last_finished_at, now)}")


def _counts(row: ScheduleRow) -> Text:
    counts = {"dead": row.dead, "failed": row.failed, "running": row.running, "queued": row.queued}
    return Text(", ").join(Text(f"{count} ") + word(status) for status, count in counts.items() if count)


def stalled_lines(rows: Sequence[ScheduleRow]) -> list[str]:
    """A sentence for each schedule whose ticks cannot be computed."""
    return [
        f"{row.namespace}/{row.name} is stalled: {one_line(row.schedule_error)}"
        for row in rows
        if row.state == "stalled" and row.schedule_error
    ]


def run_cells(run: RunRow, now: datetime) -> list[str | Text]:
    """One run."""
    return [str(run.id), word(run.status), one_line(run_of(run)), run_when(run, now), tries(run), about(run)]


def run_of(run: RunRow) -> str:
    """What it is a run of: its schedule, or the type that an application enqueued."""
    return run.schedule or run.job_type


def tries(run: RunRow) -> str:
    """Attempts made of those allowed."""
    return f"{run.attempts}/{run.max_attempts}" if run.attempts else "-"


def run_when(run: RunRow, now: datetime) -> str:
    """The moment that matters in its state."""
    match run.status:
        case "queued":
            return f"due {relative(run.run_at, now)}"
        case "running":
            return f"began {relative(run.started_at, now)}"
        case "failed":
            return f"again {relative(run.run_at, now)}"
        case "dead":
            return relative(run.dead_at, now)
        case _:
            return relative(run.finished_at, now)


def about(run: RunRow) -> str:
    """What else is worth knowing: progress, the error, the reason."""
    if run.status in {"failed", "dead"}:
        return error_line(run.error_type, run.error)
    parts = [
        f"{run.progress:.0%} done" if run.progress is not None and run.status == "running" else "",
        "asked to stop" if run.cancel_requested_at else "",
        reason_in_words(run.reason, run.status),
        counted(run.skipped_count, "tick") if run.skipped_count and run.skipped_count > 1 else "",
        f"after {counted(run.crash_count, 'crash')}" if run.crash_count else "",
    ]
    return ", ".join(part for part in parts if part)


def error_line(error_type: str | None, error: str | None) -> str:
    """An error in one line, its type first."""
    return one_line(": ".join(part for part in (error_type, error) if part))


def limit_cells(row: LimitRow) -> list[str | Text]:
    """One limit key."""
    said = str(row.max_running) if row.is_explicit else f"{row.max_running} (default)"
    return [one_line(row.key), said, str(row.running), str(row.waiting)]


def pause_cells(row: PauseRow, now: datetime) -> list[str | Text]:
    """One pause."""
    return [f"{row.what} {row.name}" if row.name else row.what, relative(row.paused_at, now), one_line(row.reason)]
