"""A plan in words, for the command line and for Markdown."""

from __future__ import annotations

import json
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast

from wakeboard.text.humanize import counted
from wakeboard.text.redact import redact
from wakeboard.ticks.upcoming_ticks import local_time, tick_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from wakeboard.plan.rules.changes import ScheduleChange, TickChange

_LONGEST: Final = 60  # characters of a value


def tick_words(change: TickChange) -> str:
    """What happens to ticks: "30 moved, 2 gained"; "no tick changes"."""
    parts = [f"{number:,} {word}" for word in ("gained", "lost", "moved") if (number := getattr(change, word))]
    return ", ".join(parts) or "no tick changes"


def totals(change: TickChange) -> str:
    """The number of ticks before and after: "30 -> 60 ticks"."""
    if change.ticks_before == change.ticks_after:
        return counted(change.ticks_after, "tick")
    return f"{change.ticks_before:,} -> {counted(change.ticks_after, 'tick')}"


def plan_summary(plan: TickChange, schedules: Iterable[ScheduleChange], not_compared: int) -> str:
    """In one line what changes, and how many schedules are not compared."""
    counts = Counter(each.change for each in schedules)
    parts = [f"{count:,} {change}" for change, count in sorted(counts.items())]
    if not_compared:
        parts = [*(parts or ["no other schedule differs"]), f"{not_compared:,} not compared"]
    return f"{', '.join(parts) or 'no schedule differs'}; {totals(plan)}, {tick_words(plan)}"


def difference(change: ScheduleChange) -> str:
    """What differs, and the first tick that goes or comes, by the schedule's own clock."""
    return "; ".join([*_differences(change), *_first_ticks(change)])


def _differences(change: ScheduleChange) -> Iterator[str]:
    if change.was:
        yield f"was {change.was}"
    for name, (before, after) in change.fields.items():
        if name.startswith("payload."):
            yield name
        elif isinstance(before, list) or isinstance(after, list):
            yield f"{name}: {_entries(cast('list[Any]', before or []), cast('list[Any]', after or []))}"
        else:
            yield f"{name}: {_value(before)} -> {_value(after)}"
    if change.change == "follows":
        yield "its parents' ticks differ"


def _entries(before: list[Any], after: list[Any]) -> str:
    """The entries of a list that go (-) and come (+)."""
    gone = [f"- {_entry(each)}" for each in before if each not in after]
    come = [f"+ {_entry(each)}" for each in after if each not in before]
    return ", ".join(gone + come) or "in another order"


def _entry(entry: Any) -> str:
    """One entry of `after`: its name, and how it waits."""
    if not isinstance(entry, dict):
        return _value(entry)
    first, *others = cast("dict[str, Any]", entry).items()
    return " ".join([_value(first[1]), *(f"{name}={_value(value)}" for name, value in others)])


def _value(value: Any) -> str:
    text = "none" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return redact(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")


def _first_ticks(change: ScheduleChange) -> Iterator[str]:
    lost, gained = (
        _local(moment, zone)
        for moment, zone in (
            (change.first_lost, change.time_zone_before),
            (change.first_gained, change.time_zone),
        )
    )
    if change.moved and lost and gained:
        yield f"first {lost} -> {gained}"
    elif lost or gained:
        yield f"first {lost or gained}"


@lru_cache(maxsize=4096)  # many schedules of an application change in the same way
def _local(moment: datetime | None, zone: str) -> str | None:
    return None if moment is None else f"{tick_text(local_time(zone, moment))} {zone}"
