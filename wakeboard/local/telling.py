"""What is told while `wakeboard up` runs, as lines: who says it, what, and how it is to be taken."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from wakeboard.rules.humanize import counted, lasted, reason_in_words, relative, times
from wakeboard.rules.sanitize import one_line, printable

if TYPE_CHECKING:
    from datetime import datetime

    from wakeboard.store.queries.recent_events import RunEvent

UP: Final = "up"
WORKER: Final = "worker"

COULD_NOT_WORK: Final = "wakeboard worker: "  # begins the one sentence of a worker that could not work at all
CRASHED: Final = "WorkerCrashed"  # the error type of a run that died of its crashes
LONGEST_ERROR: Final = 300  # characters of a run's error in one line; `wakeboard run ID` has all of it


@dataclass(frozen=True, slots=True)
class OutputLine:
    """One line. `mood`: plain, good, warn, bad or quiet. `at` None: now."""

    who: str
    text: str
    mood: str = "plain"
    at: datetime | None = None


# -- what happened on the board ----------------------------------------------------------------------------------------


def happening_line(happening: RunEvent, program: str) -> OutputLine:
    """What became of a run; `program` is how a person types wakeboard."""
    name = happening.schedule or happening.job_type
    text, mood = _became(happening, program)
    return OutputLine(f"run {happening.run_id}", f"{one_line(name)} {text}", mood, happening.at)


def _became(it: RunEvent, program: str) -> tuple[str, str]:  # noqa: PLR0911 - a table, one line for each thing
    tried = f"attempt {it.attempt} of {it.max_attempts}"
    match it.what:
        case "began":
            return f"began, {tried}" if it.attempt > 1 else "began", "quiet"
        case "succeeded":
            took = f" in {lasted(it.at - it.started_at)}" if it.started_at else ""
            return f"succeeded{took}" + (f", {tried}" if it.attempt > 1 else ""), "good"
        case "failed" | "timed_out":
            said = "failed" if it.what == "failed" else "took too long"
            then = f", next try {relative(it.next_try_at, it.at)}" if it.next_try_at else ""
            return f"{said}, {tried}{then}: {_error(it)}", "warn"
        case "crashed":
            return "lost its worker and is queued again", "warn"
        case "dead":
            tries = counted(it.crashes, "crash") if it.error_type == CRASHED else counted(it.attempt, "attempt")
            return f"is dead after {tries}: {_error(it)} ({again(it.run_id, program)})", "bad"
        case "skipped":
            ticks = f" {times(it.ticks)}" if it.ticks and it.ticks > 1 else ""
            return f"was skipped{ticks}: {reason_in_words(it.reason, it.what) or 'no reason'}", "quiet"
        case _:
            why = reason_in_words(it.reason, it.what)
            return f"was {it.what}" + (f": {why}" if why else ""), "quiet"


def again(run_id: int, program: str) -> str:
    """What to type when the cause of a death is mended."""
    return f"once mended, type: {program} retry {run_id}"


def _error(it: RunEvent) -> str:
    text = one_line(": ".join(part for part in (it.error_type, it.error) if part)) or "no error was told"
    return text if len(text) <= LONGEST_ERROR else text[:LONGEST_ERROR] + "…"


# -- what a worker says ------------------------------------------------------------------------------------------------


def worker_line(said: str) -> OutputLine | None:
    """A line of a worker's log for people. None: the board tells it already, or there is nothing in it."""
    fields = _fields(said)
    if fields is None:
        text = printable(said).rstrip()
        if text.startswith(COULD_NOT_WORK):
            return OutputLine(WORKER, text.removeprefix(COULD_NOT_WORK), "bad")
        return OutputLine(WORKER, text) if text else None
    if "outcome" in fields or str(fields["message"]).startswith("WAKEBOARD_"):  # `up` questions settings itself
        return None
    who = f"run {fields['run']}" if "run" in fields else WORKER
    mood = {"warning": "warn", "error": "bad", "critical": "bad"}.get(str(fields.get("level")), "plain")
    return OutputLine(who, one_line(str(fields.get("message", ""))), mood)


def _fields(said: str) -> dict[str, Any] | None:
    """The fields of a JSON log line, or None: a handler printed something."""
    if not said.startswith("{"):
        return None
    try:
        fields: Any = json.loads(said)
    except ValueError:
        return None
    if not isinstance(fields, dict) or "message" not in fields or "level" not in fields:
        return None
    return cast("dict[str, Any]", fields)
