"""Random pairs of states, and what a plan must say of them, by a simulation that shares no code with it.

Cron expressions are read as text and tested at each local minute with both folds of PEP 495; intervals at each second;
dependents on sets. `wakeboard.plan` computes with bits of whole periods.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tests.ticks.moments import ODD_ZONES, zone_info
from tests.ticks.test_dst_ticks import instants
from wakeboard.ticks.zones import zone_changes

if TYPE_CHECKING:
    import random

ZONES = [zone for zone in ODD_ZONES if zone != "Etc/UTC"]
RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
LONGEST_GAP = timedelta(days=1, hours=2)
MINUTE = timedelta(minutes=1)


@dataclass(frozen=True)
class Planned:
    """A schedule of a random state."""

    number: int
    spec: dict[str, Any] = field(default_factory=dict[str, Any])

    def document(self, name: str) -> dict[str, Any]:
        spec = {"jobType": "x", "payload": {"number": self.number}, **self.spec}
        metadata = {"name": name, "namespace": "team"}
        return {"apiVersion": "wakeboard.dev/v1alpha1", "kind": "JobSchedule", "metadata": metadata, "spec": spec}


States = dict[str, Planned]


# -- random states -----------------------------------------------------------------------------------------------------


def random_pair(chance: random.Random) -> tuple[States, States, datetime, int]:
    """Two states, the beginning of a period near a clock change, and its days."""
    zone = chance.choice(ZONES)
    year = chance.randint(1975, 2040)
    start = int(datetime(year, 1, 1, tzinfo=UTC).timestamp())
    changes = [period.start for period in zone_changes(zone, start, start + 366 * 86_400)]
    around = chance.choice(changes or [start])
    begin = datetime.fromtimestamp(
        (around + chance.randint(-40, 10) * 3600 + chance.randint(0, 59) * 60) // 60 * 60, UTC
    )
    names = [f"s{number}" for number in range(chance.randint(1, 5))]

    def spec(name: str) -> dict[str, Any]:
        return _spec(chance, zone, begin, [other for other in names if other != name])

    before = {name: Planned(number, spec(name)) for number, name in enumerate(names)}
    after = dict(before)
    for name in names:
        match chance.randint(0, 7):
            case 0:
                del after[name]
            case 1 | 2 | 3:
                after[name] = replace(before[name], spec=spec(name))
            case 4:
                after[f"{name}-new"] = after.pop(name)
            case 5:
                after[name] = replace(before[name], spec=before[name].spec | {"suspend": True})
            case 6:
                after[f"more-{name}"] = Planned(100 + before[name].number, spec(""))
            case _:
                pass
    return before, after, begin, chance.randint(1, 2)


def _spec(chance: random.Random, zone: str, begin: datetime, names: list[str]) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "timeZone": chance.choice([zone, zone, "Etc/UTC", chance.choice(ZONES)]),
        "dst": {"gap": chance.choice(["RunAfter", "Skip"]), "overlap": chance.choice(["First", "Both"])},
    }
    match chance.randint(0, 9):
        case 0:
            spec["every"] = f"{chance.choice([7, 45, 60, 90, 600, 5400, 86_400])}s"
        case 1:
            spec["at"] = _text(begin + timedelta(seconds=chance.randint(-1000, 100_000)))
        case 2 | 3 if names:
            parents = chance.sample([*names, "nowhere"], chance.randint(1, 2))
            kinds = ["Same", *(chance.choice(["Same", "All"]) for _ in parents[1:])]
            spec["after"] = [{"schedule": name, "ticks": kind} for name, kind in zip(parents, kinds, strict=True)]
        case _:
            spec["schedule"] = _cron(chance)
    if "schedule" in spec or "every" in spec:
        if chance.random() < 0.15:
            spec["startsAt"] = _text(begin + timedelta(seconds=chance.randint(-3600, 90_000)))
        elif chance.random() < 0.15:  # both may leave no tick, which is refused
            spec["endsAt"] = _text(begin + timedelta(seconds=chance.randint(100_000, 180_000)))
    return spec | ({"suspend": True} if chance.random() < 0.1 else {})


def _cron(chance: random.Random) -> str:
    minutes = chance.choice(["0", "30", "*/15", "7,37", "59", "*", str(chance.randint(0, 59))])
    hours = chance.choice(["*", "*/2", "0-4", "1", "2", "3", "0,23", "2-3", "1-22/7", str(chance.randint(0, 23))])
    days = chance.choice(["*"] * 6 + ["1-28", "*/2", str(chance.randint(1, 28))])
    weekdays = chance.choice(["*"] * 6 + ["0", "6", "1-5", "0,3"])
    return f"{minutes} {hours} {days} * {weekdays}"


def _text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


# -- the simulation ----------------------------------------------------------------------------------------------------


def ticks_of_state(state: States, begin: datetime, end: datetime) -> dict[str, set[datetime]]:
    """The ticks of each schedule in the period."""
    found: dict[str, set[datetime]] = {}
    waiting: dict[str, Planned] = {}
    for name, planned in state.items():
        if planned.spec.get("suspend"):
            continue
        if "after" in planned.spec:
            waiting[name] = planned
        else:
            found[name] = own_ticks(planned.spec, begin, end)
    while ready := [
        name for name, planned in waiting.items() if all(each["schedule"] in found for each in planned.spec["after"])
    ]:
        for name in ready:
            same = [found[each["schedule"]] for each in waiting.pop(name).spec["after"] if each["ticks"] == "Same"]
            found[name] = same[0].intersection(*same)
    return {name: found.get(name, set()) for name in state}


def own_ticks(spec: dict[str, Any], begin: datetime, end: datetime) -> set[datetime]:
    first, last = (datetime.fromisoformat(spec[name]) if name in spec else None for name in ("startsAt", "endsAt"))
    if "at" in spec:
        found = {datetime.fromisoformat(spec["at"])}
    elif "every" in spec:
        found = _interval(int(spec["every"][:-1]), first, begin, end)
    else:
        dst = spec["dst"]
        found = _cron_ticks(spec["schedule"], spec["timeZone"], dst["gap"], dst["overlap"], begin, end)
    return {
        tick
        for tick in found
        if begin <= tick < end and (first is None or tick >= first) and (last is None or tick <= last)
    }


def _interval(every: int, first: datetime | None, begin: datetime, end: datetime) -> set[datetime]:
    anchor = int(first.timestamp()) if first else 0
    seconds = range(int(begin.timestamp()), int(end.timestamp()))
    return {datetime.fromtimestamp(second, UTC) for second in seconds if not (second - anchor) % every}


@lru_cache
def _cron_ticks(line: str, zone: str, gap: str, overlap: str, begin: datetime, end: datetime) -> set[datetime]:
    texts = line.split()
    values = [_values(text, *bounds) for text, bounds in zip(texts, RANGES, strict=True)]
    if texts[1].startswith("*"):  # it follows real time
        gap, overlap = "Skip", "Both"
    info = zone_info(zone)
    minute = begin.astimezone(info).replace(tzinfo=None) - LONGEST_GAP
    found: set[datetime] = set()
    for _ in range((end - begin + 2 * LONGEST_GAP) // MINUTE):
        minute += MINUTE
        if minute.minute in values[0] and minute.hour in values[1] and _day_matches(minute, texts, values):
            found |= instants(minute, info, gap, overlap)
    return found


def _values(text: str, low: int, high: int) -> set[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, _, last = (f"{low}-{high}" if span == "*" else span).partition("-")
        found |= set(range(int(first), int(last or first) + 1, int(step or 1)))
    return found


def _day_matches(minute: datetime, texts: list[str], values: list[set[int]]) -> bool:
    in_month, in_week = minute.day in values[2], minute.isoweekday() % 7 in values[4]
    either = "*" not in {texts[2], texts[4]}  # as of a CronJob: */2 restricts the days, too
    return in_month or in_week if either else in_month and in_week


# -- the comparison ----------------------------------------------------------------------------------------------------


def expected(before: States, after: States, begin: datetime, days: int) -> dict[str, tuple[Any, ...]]:
    """Of each schedule whose ticks differ: ticks before and after, gained, lost, moved, the first ones."""
    end = begin + timedelta(days=days)
    old, new = ticks_of_state(before, begin, end), ticks_of_state(after, begin, end)
    was = {name: next((known for known in before if _is_same(name, known, before, after)), None) for name in after}
    pairs = [(known, name) for name, known in was.items()]
    pairs += [(known, None) for known in before if known not in was.values()]
    found: dict[str, tuple[Any, ...]] = {}
    for known, name in pairs:
        nothing: set[datetime] = set()
        ticks, more = old[known] if known else nothing, new[name] if name else nothing
        lost, gained = ticks - more, more - ticks
        if lost or gained:
            moved = min(len(lost), len(gained))
            counts = len(ticks), len(more), len(gained) - moved, len(lost) - moved, moved
            found[name or known or ""] = *counts, min(lost, default=None), min(gained, default=None)
    return found


def _is_same(name: str, known: str, before: States, after: States) -> bool:
    """By name, or a rename: the same content, while neither name is in both states."""
    return name == known or (name not in before and known not in after and after[name] == before[known])
