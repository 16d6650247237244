"""Renders templates. Jinja escapes every value; a test forbids the filter `safe`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, Literal

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from wakeboard import __version__
from wakeboard.limits.rules.rate import Rate
from wakeboard.text.humanize import (
    WAITS_FOR_RUNS_UNTIL,
    counted,
    due,
    lasted,
    progress_in_words,
    reason_in_words,
    relative,
)
from wakeboard.text.sanitize import one_line, printable

SECTIONS: Final = (  # of the navigation: label, path, and the key that leads there after g
    ("Overview", "/", "o"),
    ("Schedules", "/schedules", "s"),
    ("Calendar", "/calendar", "c"),
    ("Runs", "/runs", "r"),
    ("Limits", "/limits", "l"),
    ("Performance", "/performance", "p"),
    ("Alerts", "/alerts", "e"),
    ("Effects", "/effects", "f"),
    ("Audit", "/audit", "a"),
)
NO_TIME: Final = Markup('<span class="none">-</span>')


@lru_cache(maxsize=1)
def environment() -> Environment:
    """The templates, and the filters that they use."""
    env = Environment(
        loader=PackageLoader("wakeboard.board"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Any] = {
        "clock": clock_element,
        "code": code_elements,
        "compact": compact,
        "counted": counted,
        "due": due_element,
        "duration": lasted,
        "one_line": one_line,
        "printable": printable,
        "rate": _rate,
        "seconds": seconds_in_words,
        "time": time_element,
    }
    env.filters.update(filters)
    words = {"progress_in_words": progress_in_words, "reason_in_words": reason_in_words}
    shared: dict[str, Any] = {**words, "sections": SECTIONS, "version": __version__}
    env.globals.update(shared)
    return env


def render(template: str, **context: Any) -> str:
    """The HTML of a template."""
    return environment().get_template(template).render(context)


def code_elements(text: str) -> Markup:
    """A sentence in which backquotes mark what to type."""
    parts = text.split("`")
    return Markup("").join(Markup("<code>{}</code>").format(part) if at % 2 else part for at, part in enumerate(parts))


def _rate(stored: dict[str, int]) -> str:
    """A rate in an audit row, as users write it: 60/minute."""
    return str(Rate(stored["count"], stored["period_s"]))


def due_element(run_at: datetime, now: datetime) -> Markup:
    """When a run is due, as `time_element`; without a time if it waits for other runs."""
    return Markup("{}").format(due(run_at, now)) if run_at >= WAITS_FOR_RUNS_UNTIL else time_element(run_at, now)


def time_element(moment: datetime | None, now: datetime | None = None) -> Markup:
    """A point in time: `<board-time>`, which shows it in the viewer's zone. Without JavaScript it is in UTC.

    With `now` it is shown as a distance ("3 min ago") and the absolute time on hover.
    """
    if moment is None:
        return NO_TIME
    if now is None:
        return _board_time(moment, "", f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC")
    return _board_time(moment, " relative", relative(moment, now.astimezone(UTC)))


def clock_element(moment: datetime | None) -> Markup:
    """A point in time as weekday, date, minute and seconds but 00, in the viewer's zone; without JavaScript in UTC."""
    if moment is None:
        return NO_TIME
    return _board_time(moment, " short", f"{moment.astimezone(UTC):%a %Y-%m-%d %H:%M:%S}".removesuffix(":00") + " UTC")


def _board_time(moment: datetime, form: Literal["", " relative", " short"], text: str) -> Markup:
    """The element. `form`: the attribute that says how board.js writes the time. `text`: without JavaScript."""
    utc = moment.astimezone(UTC)
    return Markup('<board-time{} datetime="{}" title="{}">{}</board-time>').format(
        form, utc.isoformat(timespec="milliseconds").replace("+00:00", "Z"), f"{utc:%Y-%m-%d %H:%M:%S} UTC", text
    )


def seconds_in_words(seconds: float) -> str:
    """How long so many seconds are: "85 ms", "12 min"."""
    return lasted(timedelta(seconds=seconds))


def compact(number: int) -> str:
    """A number in a few characters: "999", "1.2k", "20k", "3.4M"."""
    for unit, name in ((1_000_000, "M"), (1_000, "k")):
        if number >= unit:
            return f"{number / unit:.1f}{name}" if number < 10 * unit else f"{number // unit}{name}"
    return str(number)
