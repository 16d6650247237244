"""Formats relative times, durations and counts for users."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from wakeboard.text.durations import duration_text
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# (upper bound in seconds, seconds of the unit, unit): "in 80 s", but "in 2 min".
_DAY: Final = 86_400
_STEPS: Final = (
    (90, 1, "s"),
    (90 * 60, 60, "min"),
    (36 * 3600, 3600, "h"),
    (60 * _DAY, _DAY, "days"),
    (730 * _DAY, 30.44 * _DAY, "months"),
    (math.inf, 365.25 * _DAY, "years"),
)

_REASONS = {  # stored by the SQL functions for runs that were not run to their end
    "CatchUpAll": "it was missed, and catchUp.limit newer ones ran",
    "CatchUpLatest": "it was missed, and a newer one ran",
    "CatchUpSkip": "it was missed, and catchUp.policy is Skip",
    "CircuitOpen": "the runs before died one after another (suspendAfterDead)",
    "DeadRetention": "it was dead for too long",
    "Forbidden": "the run before was unfinished",
    "Paused": "it was paused",
    "Replaced": "replaced by a newer run",
    "ScheduleRemoved": "its schedule was removed",
    "Suspended": "its schedule was suspended",
    "TooLate": "it was too late to start",
}


MAX_NAMED_RUNS: Final = 10  # in one message
WAITS_FOR_RUNS_UNTIL: Final = datetime(2999, 12, 31, tzinfo=UTC)  # the run_at of a run that waits for other runs


def due(run_at: datetime, now: datetime) -> str:
    """When a run is due, as `relative`; "after other runs" if it waits for these."""
    return "after other runs" if run_at >= WAITS_FOR_RUNS_UNTIL else relative(run_at, now)


def runs_after_words(parents: Sequence[str]) -> str:
    """The schedules that a schedule runs after: "after extract, rates"."""
    return f"after {', '.join(parents)}"


def relative(moment: datetime | None, now: datetime) -> str:
    """How far `moment` is from `now`: "in 3 min", "2 h ago", "now", "in 4 months"; "-" for None."""
    if moment is None:
        return "-"
    seconds = (moment - now).total_seconds()
    if abs(seconds) < 0.5:  # noqa: PLR2004 - it rounds to nothing
        return "now"
    amount = _distance(abs(seconds))
    return f"in {amount}" if seconds > 0 else f"{amount} ago"


def lasted(span: timedelta) -> str:
    """How long something took: "85 ms", "1.2 s", "12 min", "3 h"."""
    seconds = max(0.0, span.total_seconds())
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:  # noqa: PLR2004 - below it the tenths matter
        return f"{seconds:.1f} s"
    return _distance(seconds)


def _distance(seconds: float) -> str:
    unit, name = next((unit, name) for bound, unit, name in _STEPS if seconds < bound)
    return f"{max(1, round(seconds / unit))} {name}"


def quoted_list(words: Sequence[str]) -> str:
    """At least one word as text: `"a", "b" and "c"`."""
    *others, last = (f'"{word}"' for word in words)
    return f"{', '.join(others)} and {last}" if others else last


def progress_in_words(fraction: float | None, message: str | None) -> str:
    """How much is done, such as "40 % done: page 4 of 10"; empty: nothing was reported."""
    if fraction is None:
        return ""
    return f"{fraction * 100:.0f} % done{f': {one_line(message)}' if message else ''}"


def counted(number: int, noun: str) -> str:
    """A number and its noun, which is given in the singular: "1 run", "2 dead runs", "0 crashes"."""
    return f"{number:,} {noun if number == 1 else plural(noun)}"


def counted_at_least(number: int, noun: str, *, more: bool) -> str:
    """As `counted`; with `more` the number is a lower bound: "10,000+ runs"."""
    return f"{number:,}+ {plural(noun)}" if more else counted(number, noun)


def named_runs(ids: Iterable[int]) -> str:
    """The numbers of runs, at most ten of them: "run 7", "runs 7, 8", "runs 1, 2, … and 3 more"."""
    numbers = sorted(ids)
    more = f" and {len(numbers) - MAX_NAMED_RUNS:,} more" if len(numbers) > MAX_NAMED_RUNS else ""
    return f"{'run' if len(numbers) == 1 else 'runs'} {', '.join(map(str, numbers[:MAX_NAMED_RUNS]))}{more}"


def plural(noun: str) -> str:
    """The plural of a regular noun."""
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"


def times(number: int) -> str:
    """How often: "once", "twice", "3 times"."""
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")


def reason_in_words(reason: str | None, status: str) -> str:
    """Why a run was cancelled, skipped or discarded; "" if that repeats its status."""
    if reason is None or reason.lower() == status:
        return ""
    return _REASONS.get(reason, one_line(reason))


def full_stop(sentence: str) -> str:
    """The sentence with a full stop, unless it is empty or has an end: ".", "?", "!", "…" or ":".

    Messages to users on the command line and in `wakeboard up` end with a full stop. Messages of SQL functions, log
    records, conditions and errors of runs do not: they are shown after a colon or in a column.
    """
    return sentence if not sentence or sentence.endswith((".", "?", "!", "…", ":")) else f"{sentence}."


def as_sentence(message: str) -> str:
    """The message of an error as a sentence of its own: with a full stop, and a capital letter before small ones."""
    first = message.partition(" ")[0].rstrip(",;:")
    return full_stop(message[:1].upper() + message[1:] if first.isalpha() and first.islower() else message)


def expectation(within_s: int, missed: int | None) -> str:
    """What a schedule expects of its ticks: "a success within 1h of each tick"."""
    which = "each tick" if (missed or 1) == 1 else f"one of {missed} ticks in a row"
    return f"a success within {duration_text(timedelta(seconds=within_s))} of {which}"
