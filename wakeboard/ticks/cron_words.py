"""Describes when a schedule is due in plain words, for example "Monday to Friday at 08:00" or "every 90 minutes".

The words name local times. Two expressions with the same words match the same local times; a test checks this. They do
not say what a clock change does: `wakeboard.ticks.clock_change_notes` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from wakeboard.ticks.compiled_cron import ALL_WEEKDAYS, LAST
from wakeboard.ticks.compiled_ticks import ticks_for
from wakeboard.ticks.interval_ticks import IntervalTicks, SingleTick
from wakeboard.ticks.ticks import UNBOUNDED, moment_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wakeboard.ticks.compiled_cron import CronFields
    from wakeboard.ticks.dst_ticks import DstTicks

_ALL_MINUTES: Final = (1 << 60) - 1
_ALL_HOURS: Final = (1 << 24) - 1
_ALL_DAYS: Final = (1 << 32) - 2
_ALL_MONTHS: Final = (1 << 13) - 2
_LISTED_TIMES: Final = 6  # more times of a day are described by their hours and minutes
_RUN: Final = 3  # as many consecutive values become a range
_WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_UNITS: Final = ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))
_ORDINALS: Final = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", LAST: "last"}


def schedule_in_words(compiled: str) -> str:
    """When a schedule is due (`compile_ticks`), as a phrase. Raises InvalidSchedule."""
    ticks = ticks_for(compiled, "Etc/UTC", "RunAfter", "First")
    match ticks:
        case IntervalTicks():
            phrase = f"every {_span(ticks.every)}"
        case SingleTick():
            return f"once, at {_moment(ticks.at)}"
        case _:
            phrase = cron_in_words(cast("DstTicks", ticks).fields)
    first, last = ticks.bounds
    starts = f", from {_moment(first)}" if first > UNBOUNDED.first else ""
    return phrase + starts + (f", until {_moment(last)}" if last < UNBOUNDED.last else "")


def _span(seconds: int) -> str:
    size, unit = next((size, unit) for size, unit in _UNITS if seconds % size == 0)
    return f"{seconds // size} {unit}s" if seconds > size else unit


def _moment(instant: int) -> str:
    return f"{moment_of(instant):{'%Y-%m-%d %H:%M:%S UTC' if instant % 60 else '%Y-%m-%d %H:%M UTC'}}"


def cron_in_words(fields: CronFields) -> str:
    """When an expression is due, as a phrase: "every 5 minutes", "on day 1 of the month at 03:00"."""
    days, times, months = _days(fields), _times(fields), _months(fields)
    of_the_day = times.startswith("at ") and times[3].isdigit()
    phrase = f"{days or 'every day'} {times}" if of_the_day else f"{times} {days}".rstrip()
    return f"{phrase}, in {months}" if months else phrase


def _times(fields: CronFields) -> str:
    minutes, hours = _values(fields.minutes, 0, 59), _values(fields.hours, 0, 23)
    if fields.hours == _ALL_HOURS:
        return _every_hour(fields.minutes, minutes)
    step = _step(hours, 24)
    if step and len(minutes) == 1:
        return f"every {step} hours at minute {minutes[0]}"
    if len(minutes) * len(hours) <= _LISTED_TIMES:
        return f"at {_joined([f'{hour:02}:{minute:02}' for hour in hours for minute in minutes])}"
    in_minutes = _minutes_in_words(fields.minutes, minutes)
    return f"{in_minutes}{' of every hour' if in_minutes.startswith('at ') else ''} {_spans(hours)}"


def _every_hour(mask: int, minutes: Sequence[int]) -> str:
    if mask == _ALL_MINUTES or _step(minutes, 60):
        return _minutes_in_words(mask, minutes)
    if minutes == [0]:
        return "every hour, on the hour"
    return f"every hour at {_named('minute', minutes)}"


def _minutes_in_words(mask: int, minutes: Sequence[int]) -> str:
    if mask == _ALL_MINUTES:
        return "every minute"
    step = _step(minutes, 60)
    return f"every {step} minutes" if step else f"at {_named('minute', minutes)}"


def _step(values: Sequence[int], whole: int) -> int | None:
    """The step of values that begin with 0 and divide the whole, at least two of them; otherwise None."""
    step = values[1] if len(values) > 1 else 0
    return step if step > 1 and whole % step == 0 and list(values) == list(range(0, whole, step)) else None


def _days(fields: CronFields) -> str:
    """The days, or "" for every day."""
    of_month, of_week = _days_of_month(fields), _days_of_week(fields)
    if fields.either_day:
        return f"{of_month} or {of_week}" if of_month and of_week else ""
    if of_month and of_week:
        return f"{of_month} if it is also {of_week}"
    return of_month or of_week


def _days_of_month(fields: CronFields) -> str:
    if fields.days & _ALL_DAYS == _ALL_DAYS:
        return ""
    days = _values(fields.days, 1, 31)
    parts = [_named("day", days)] if days else []
    if fields.last_day:
        parts.append("the last day")
    return f"on {' and '.join(parts)} of the month"


def _days_of_week(fields: CronFields) -> str:
    if fields.nth_weekdays:
        nth = [f"{_ORDINALS[n]} {_WEEKDAYS[(weekday - 1) % 7]}" for weekday, n in fields.nth_weekdays]
        return f"on the {_joined(nth)} of the month"
    if fields.weekdays & ALL_WEEKDAYS == ALL_WEEKDAYS:
        return ""
    from_monday = [(weekday - 1) % 7 for weekday in _values(fields.weekdays, 0, 6)]
    return f"on {_ranges(sorted(from_monday), _WEEKDAYS)}"


def _months(fields: CronFields) -> str:
    if fields.months & _ALL_MONTHS == _ALL_MONTHS:
        return ""
    return _ranges([month - 1 for month in _values(fields.months, 1, 12)], _MONTHS)


def _named(noun: str, numbers: Sequence[int]) -> str:
    """Numbers behind their noun: "minute 5", "hours 9 to 17"."""
    return f"{noun if len(numbers) == 1 else f'{noun}s'} {_ranges(numbers, None)}"


def _spans(hours: Sequence[int]) -> str:
    """Hours as spans of the day: "from 09:00 to 17:59"."""
    runs = _consecutive(hours)
    return f"from {_joined([f'{run[0]:02}:00 to {run[-1]:02}:59' for run in runs])}"


def _ranges(numbers: Sequence[int], names: Sequence[str] | None) -> str:
    """Sorted numbers, or their names, with consecutive ones as ranges: "1, 2 and 5 to 9"."""
    parts: list[str] = []
    for run in _consecutive(numbers):
        texts = [names[number] if names else str(number) for number in run]
        parts += [f"{texts[0]} to {texts[-1]}"] if len(run) >= _RUN else texts
    return _joined(parts)


def _consecutive(numbers: Sequence[int]) -> list[list[int]]:
    """Sorted numbers, split where one is missing."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs


def _joined(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else parts[0]


def _values(mask: int, low: int, high: int) -> list[int]:
    return [value for value in range(low, high + 1) if mask >> value & 1]
