"""The messages of `wakeboard up`: one line for each event of a run and for each problem.

A line begins with the time at which it is printed, so that the times of the lines only grow.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from rich.text import Text

from wakeboard.process.display_zone import in_zone
from wakeboard.process.safe_console import SafeConsole
from wakeboard.text.humanize import counted, full_stop, lasted, reason_in_words, relative, times
from wakeboard.text.sanitize import one_line, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wakeboard.views.queries.recent_events import RunEvent

Level: TypeAlias = Literal["debug", "info", "success", "warning", "error"]

UP: Final = "up"  # the sources of messages; the others are runs and the companion process
WORKER: Final = "worker"

STARTUP_ERROR_PREFIX: Final = "wakeboard worker: "  # of the line that a worker prints when it cannot start
CRASHED: Final = "WorkerCrashed"  # the error type of a run that is dead because its workers crashed
MAX_ERROR_CHARS: Final = 300  # `wakeboard run ID` prints the whole error
SOURCE_WIDTH: Final = 8
STYLES: Final[dict[Level, str]] = {
    "debug": "dim",
    "info": "",
    "success": "green",
    "warning": "yellow",
    "error": "red",
}


@dataclass(frozen=True, slots=True)
class UpLine:
    """One line of output."""

    source: str
    text: str
    level: Level = "info"


class Printer:
    """Prints messages to standard output, in colour on a terminal."""

    def __init__(self) -> None:
        self._console = SafeConsole(soft_wrap=True)

    def print(self, message: UpLine) -> None:
        """Prints one line. Does nothing after the terminal was closed."""
        with suppress(OSError, ValueError):
            self._console.print(message_line(message, datetime.now(UTC)))


def message_line(message: UpLine, now: datetime) -> Text:
    """Formats a message: `14:03:00  run 12    shop/weekly-report succeeded in 2.4 s`, in the display zone."""
    head = f"{in_zone(now):%H:%M:%S}  {one_line(message.source):<{SOURCE_WIDTH}}  "
    return Text.assemble((head, "dim"), (one_line(message.text), STYLES[message.level]))


class Problems:
    """The open problems by subject. A problem is printed when it appears, and its resolution once."""

    def __init__(self, emit: Callable[[UpLine], None]) -> None:
        self._emit = emit
        self._open: dict[str, tuple[str, ...]] = {}

    def update(self, subject: str, problems: Sequence[str], *, resolved: str = "") -> None:
        """Replaces the open problems of a subject. When none is left, prints `resolved`, or repeats those that were."""
        before = self._open.get(subject, ())
        sentences = tuple(full_stop(problem) for problem in problems)
        for problem in sentences:
            if problem not in before:
                self._emit(UpLine(UP, problem, "error"))
        if before and not sentences:
            for text in [resolved] if resolved else [f"resolved: {problem}" for problem in before]:
                self._emit(UpLine(UP, text, "success"))
        self._open[subject] = sentences

    def update_each(self, group: str, problems: Mapping[str, str]) -> None:
        """Replaces the open problems of a group by name. Unlike those of `update`, they are resolved one by one."""
        subjects = {f"{group}: {name}": problem for name, problem in problems.items()}
        for subject in [known for known in self._open if known.startswith(f"{group}: ")]:
            self.update(subject, [subjects.pop(subject)] if subject in subjects else [])
        for subject, problem in subjects.items():
            self.update(subject, [problem])

    @property
    def all(self) -> list[str]:
        """The open problems of all subjects."""
        return [problem for problems in self._open.values() for problem in problems]


# -- messages about runs -----------------------------------------------------------------------------------------------


def event_message(event: RunEvent, program: str, now: datetime) -> UpLine:
    """Describes an event of a run, as of `now`. `program` is the command to type for wakeboard."""
    text, level = _event_text(event, program, now)
    return UpLine(f"run {event.run_id}", f"{one_line(event.schedule or event.job_type)} {text}", level)


def _event_text(event: RunEvent, program: str, now: datetime) -> tuple[str, Level]:  # noqa: PLR0911 - one case per event
    attempt = f"attempt {event.attempt} of {event.max_attempts}"
    match event.kind:
        case "started":
            again = f", {attempt}" if event.attempt > 1 else ""
            return f"has been running for {lasted(now - event.at)}{again}", "debug"
        case "succeeded":
            took = f" in {lasted(event.at - event.started_at)}" if event.started_at else ""
            return f"succeeded{took}" + (f", {attempt}" if event.attempt > 1 else ""), "success"
        case "failed" | "timed_out":
            verb = "failed" if event.kind == "failed" else "timed out"
            retry = f", retry {relative(event.next_attempt_at, now)}" if event.next_attempt_at else ""
            return f"{verb}, {attempt}{retry}: {_error(event)}", "warning"
        case "crashed":
            return "lost its worker and is queued again", "warning"
        case "dead":
            crashed = event.error_type == CRASHED
            cause = counted(event.crashes, "crash") if crashed else counted(event.attempt, "attempt")
            return f"is dead after {cause}: {_error(event)} ({retry_hint(event.run_id, program)})", "error"
        case "skipped":
            ticks = f" {times(event.ticks)}" if event.ticks and event.ticks > 1 else ""
            return f"was skipped{ticks}: {reason_in_words(event.reason, event.kind) or 'no reason'}", "debug"
        case _:
            reason = reason_in_words(event.reason, event.kind)
            return f"was {event.kind}" + (f": {reason}" if reason else ""), "debug"


def retry_hint(run_id: int, program: str) -> str:
    """The command that retries a dead run."""
    return f"to retry it: {program} retry {run_id}"


def _error(event: RunEvent) -> str:
    text = one_line(": ".join(part for part in (event.error_type, event.error) if part)) or "no error message"
    return text if len(text) <= MAX_ERROR_CHARS else text[:MAX_ERROR_CHARS] + "…"


# -- messages of workers -----------------------------------------------------------------------------------------------


def worker_message(line: str) -> UpLine | None:
    """Converts a line of a worker's output. None for empty lines and for events that the poller reports itself."""
    fields = _log_fields(line)
    if fields is None:
        text = printable(line).rstrip()
        if text.startswith(STARTUP_ERROR_PREFIX):
            return UpLine(WORKER, text.removeprefix(STARTUP_ERROR_PREFIX), "error")
        return UpLine(WORKER, text) if text else None
    if "outcome" in fields or str(fields["message"]).startswith("WAKEBOARD_"):  # `up` checks settings itself
        return None
    source = f"run {fields['run']}" if "run" in fields else WORKER
    levels: dict[str, Level] = {"warning": "warning", "error": "error", "critical": "error"}
    return UpLine(source, one_line(str(fields["message"])), levels.get(str(fields["level"]), "info"))


def _log_fields(line: str) -> dict[str, Any] | None:
    """Parses a JSON log line. None for other output, such as that of a handler's print()."""
    if not line.startswith("{"):
        return None
    try:
        fields: Any = json.loads(line)
    except ValueError:
        return None
    if not isinstance(fields, dict) or "message" not in fields or "level" not in fields:
        return None
    return cast("dict[str, Any]", fields)
