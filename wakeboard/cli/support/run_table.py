"""Formats a run as a row of a table: `wakeboard runs`, and the previews of retry, cancel, replay and discard."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from wakeboard.cli.support.tables import Column, styled
from wakeboard.cli.support.time_args import in_display_zone
from wakeboard.process.display_zone import in_zone
from wakeboard.text.humanize import counted, due, progress_in_words, reason_in_words, relative
from wakeboard.text.mask_json import mask_json
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from datetime import datetime

    from rich.text import Text

    from wakeboard.views.rules.run_rows import RunRow

LATE_AFTER: Final = timedelta(minutes=10)  # then a run names its tick
RUN_COLUMNS = (
    Column("ID", right=True),
    Column("STATUS"),
    Column("RUN OF", shrinks=True),
    Column("WHEN"),
    Column("TRY", right=True),
    Column("DETAILS", shrinks=True),
)


WIDE_COLUMNS = (
    *RUN_COLUMNS[:3],
    Column("TYPE", shrinks=True),
    Column("QUEUE", shrinks=True),
    Column("PRIORITY", right=True),
    Column("DUE"),
    Column("STARTED"),
    Column("ENDED"),
    *RUN_COLUMNS[4:],
    Column("PAYLOAD", shrinks=True),
)


def wide_run_cells(run: RunRow, payload: str, now: datetime) -> list[str | Text]:
    """The cells of one run for WIDE_COLUMNS: with all its times as they are, and its payload without masked values."""
    cells = run_cells(run, now)
    ended = run.finished_at or run.dead_at or run.failed_at
    times = [in_display_zone(time) if time else "-" for time in (run.run_at, run.started_at, ended)]
    of_run = [one_line(run.job_type), one_line(run.queue), str(run.priority)]
    return [*cells[:3], *of_run, *times, *cells[4:], one_line(mask_json(payload).text)]


def run_cells(run: RunRow, now: datetime) -> list[str | Text]:
    """The cells of one run."""
    tries = f"{run.attempts}/{run.max_attempts}" if run.attempts else "-"
    notes = ", ".join(part for part in (_late_tick(run), run_notes(run)) if part)
    return [str(run.id), styled(run.status), one_line(run_of(run)), run_when(run, now), tries, notes]


def _late_tick(run: RunRow) -> str:
    """The tick of a run that was created long after it, by a backfill for example; "" for other runs."""
    is_late = run.trigger in {"tick", "backfill"} and run.created_at - run.scheduled_for > LATE_AFTER
    return f"tick {in_zone(run.scheduled_for):%Y-%m-%d %H:%M}" if is_late and run.status != "skipped" else ""


def run_of(run: RunRow) -> str:
    """The schedule of the run, or the job type of a run that an application enqueued."""
    return run.schedule or run.job_type


def run_when(run: RunRow, now: datetime) -> str:
    """The time that matters in this status."""
    match run.status:
        case "queued":
            return f"due {due(run.run_at, now)}"
        case "running":
            return f"started {relative(run.started_at, now)}"
        case "failed":
            return f"again {relative(run.run_at, now)}"
        case "dead":
            return relative(run.dead_at, now)
        case _:
            return relative(run.finished_at, now)


def run_notes(run: RunRow) -> str:
    """The error of a failed or dead run; of other runs, progress and the reason for the status."""
    if run.status in {"failed", "dead"}:
        return error_line(run.error_type, run.error)
    parts = [
        progress_in_words(run.progress, run.progress_message) if run.status in {"queued", "running"} else "",
        "cancel requested" if run.cancel_requested_at else "",
        reason_in_words(run.reason, run.status),
        counted(run.skipped_count, "tick") if run.skipped_count and run.skipped_count > 1 else "",
        f"after {counted(run.crash_count, 'crash')}" if run.crash_count else "",
    ]
    return ", ".join(part for part in parts if part)


def error_line(error_type: str | None, error: str | None) -> str:
    """An error on one line, as "type: message"."""
    return one_line(": ".join(part for part in (error_type, error) if part))
