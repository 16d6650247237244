"""What differs between two states, schedule by schedule: fields, ticks, and what clock changes do to the new ticks.

A tick that goes and one that comes are one moved tick, in pairs in the order of time. What is left over is lost or
gained. So `gained - lost` is the difference of the number of ticks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from wakeboard.plan.rules.state import NEVER, clock_changes
from wakeboard.ticks.ticks import moment_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from wakeboard.plan.rules.comparison import Comparison
    from wakeboard.plan.rules.state import Key, ScheduleTicks
    from wakeboard.schedules.rules.job_schedule import JobSchedule, JobScheduleSpec
    from wakeboard.ticks.tick_load import TickRule

_TIMING: Final = frozenset(
    {"schedule", "every", "at", "startsAt", "endsAt", "timeZone", "suspend", "dst.gap", "dst.overlap"}
)

Change = Literal["added", "removed", "renamed", "changed", "follows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TickChange:
    """How many ticks there are before and after, and how many of them are gained, lost or moved."""

    ticks_before: int = 0
    ticks_after: int = 0
    gained: int = 0
    lost: int = 0
    moved: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleChange(TickChange):
    """A schedule (namespace/name) that differs, in the period.

    `change`: added, removed, renamed, changed, or follows: only its ticks differ, because of what it runs after. `was`:
    the name before, or null. `fields`: the fields that differ, each with its values before and after; of a payload only
    the names. `first_lost`, `first_gained`: the first tick that goes and the first that comes, or null; `time_zone`
    and `time_zone_before` are the schedule's. `clock_changes`: a sentence for each clock change within a year at
    which its new timing runs once at another time, or not at the second of two; findings have those that matter.
    """

    schedule: str
    change: Change
    was: str | None = None
    fields: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])
    first_lost: datetime | None = None
    first_gained: datetime | None = None
    time_zone: str = ""
    time_zone_before: str = ""
    clock_changes: tuple[str, ...] = ()


def schedule_changes(compared: Comparison) -> Iterator[ScheduleChange]:
    """The schedules that differ, by name. Those whose declaration cannot be used as written are not compared."""
    before, after, old, new, begin = compared.before, compared.after, compared.old, compared.new, compared.begin
    renamed = compared.renamed
    pairs: list[tuple[Key | None, Key | None]] = [(key, None) for key in compared.gone - set(renamed.values())]
    pairs += [(renamed.get(key), key) for key in compared.come]
    pairs += [(key, key) for key in before.schedules.keys() & after.schedules.keys() - compared.unknown]
    for key_before, key in sorted(pairs, key=lambda pair: pair[1] or pair[0] or ("", "")):
        was = before.schedules.get(key_before) if key_before else None
        now = after.schedules.get(key) if key else None
        one = now or was
        assert one is not None, "one of the states has it"
        change, fields = _change(was, now)
        if change is None:
            continue
        ticks = _tick_change(old.of(key_before) if key_before else NEVER, new.of(key) if key else NEVER, begin)
        if change != "follows" or ticks["first_lost"] or ticks["first_gained"]:
            yield ScheduleChange(
                schedule=one.full_name,
                change=change,
                was=was.full_name if was and change == "renamed" else None,
                fields=fields,
                time_zone=one.spec.time_zone,
                time_zone_before=(was or one).spec.time_zone,
                clock_changes=_clock_changes(change, fields, new.rules.get(key) if key else None, begin),
                **ticks,
            )


def _change(was: JobSchedule | None, now: JobSchedule | None) -> tuple[Change | None, dict[str, list[Any]]]:
    """How it differs, ticks aside, and its fields that differ; None: not at all, and it has ticks of its own."""
    if was is None or now is None:
        return "removed" if now is None else "added", {}
    fields = {} if was is now else field_changes(was.spec, now.spec)
    if was.full_name != now.full_name:
        return "renamed", fields
    return "changed" if fields else "follows" if now.spec.after else None, fields


def field_changes(was: JobScheduleSpec, now: JobScheduleSpec) -> dict[str, list[Any]]:
    """The fields of a spec that differ, each with its values before and after. A payload may hold secrets: names only.

    A field that is not written has the value null.
    """
    others = now.__dict__  # it has the same fields; to ask for each attribute takes five times as long
    fields = {name for name, value in was.__dict__.items() if value is not others[name] and value != others[name]}
    if not fields:
        return {}
    old, new = (dict(_flat(spec.model_dump(by_alias=True, exclude_none=True, include=fields))) for spec in (was, now))
    differing = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return {name: [None, None] if name.startswith("payload.") else [old.get(name), new.get(name)] for name in differing}


def _flat(spec: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The fields, and for objects (dst, catchUp, backoff, payload) their fields: `dst.gap`."""
    for name, value in spec.items():
        if isinstance(value, dict):
            yield from ((f"{name}.{inner}", part) for inner, part in cast("dict[str, Any]", value).items())
        else:
            yield name, value


@lru_cache(maxsize=2048)  # many schedules of an application change in the same way
def _tick_change(old: ScheduleTicks, new: ScheduleTicks, begin: int) -> dict[str, Any]:
    unit = min(old.unit, new.unit)
    before, after = old.in_units(unit), new.in_units(unit)
    lost, gained = before & ~after, after & ~before
    ticks_lost, ticks_gained = lost.bit_count(), gained.bit_count()
    moved = min(ticks_lost, ticks_gained)
    return {
        "ticks_before": before.bit_count(),
        "ticks_after": after.bit_count(),
        "gained": ticks_gained - moved,
        "lost": ticks_lost - moved,
        "moved": moved,
        "first_lost": _first(lost, unit, begin),
        "first_gained": _first(gained, unit, begin),
    }


def _first(bits: int, unit: int, begin: int) -> datetime | None:
    return moment_of(begin + ((bits & -bits).bit_length() - 1) * unit) if bits else None


def _clock_changes(
    change: Change, fields: Mapping[str, list[Any]], rule: TickRule | None, begin: int
) -> tuple[str, ...]:
    if rule is None or (change == "changed" and not _TIMING & fields.keys()):
        return ()
    return tuple(sentence for is_surprise, sentence in clock_changes(rule, begin) if not is_surprise)
