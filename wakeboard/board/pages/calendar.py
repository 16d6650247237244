"""The calendar: the number of ticks in each minute of a day, or each hour of a week, and what clock changes do.

The load is counted, not enumerated (`wakeboard.ticks.tick_load`), and one count serves all viewers of the same days.
Only ticks that are still to come count, and only of active schedules.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal

from wakeboard.board.pages.calendar_days import days_of, segments_of
from wakeboard.board.pages.calendar_grid import Grid, Load, Rows, coming, load_of
from wakeboard.board.pages.schedule_filters import FILTERS, filter_query, one_of, schedule_filter
from wakeboard.board.pages.schedules import words_of
from wakeboard.board.routing import BoardRequest, Page, page
from wakeboard.errors import InvalidSchedule, InvalidValue
from wakeboard.text.object_ids import is_id
from wakeboard.text.sanitize import one_line
from wakeboard.ticks.compiled_ticks import ticks_for
from wakeboard.ticks.dst_ticks import DstTicks
from wakeboard.ticks.interval_ticks import IntervalTicks
from wakeboard.ticks.tick_load import ClockChange, TickRule, pile_ups, rules_with_ticks
from wakeboard.ticks.ticks import moment_of
from wakeboard.ticks.upcoming_ticks import UpcomingTick, local_time, upcoming_ticks
from wakeboard.ticks.zones import known_zones
from wakeboard.views.queries.listings import Listings
from wakeboard.views.queries.planned_schedules import schedules_of_rules, tick_rules
from wakeboard.views.queries.schedule_list import filter_choices
from wakeboard.views.queries.schedule_selection import sample_schedules

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wakeboard.board.pages.calendar_days import DaySegment
    from wakeboard.store.connection import AsyncConnection
    from wakeboard.views.queries.planned_schedules import PlannedSchedule
    from wakeboard.views.queries.schedule_list import FilterChoices
    from wakeboard.views.queries.schedule_selection import ScheduleFilter, Selection

VIEWS: Final = ("day", "week")
PILE_UPS_SHOWN: Final = 8
CHANGES_SHOWN: Final = 12
SCHEDULES_SHOWN: Final = 100
TICKS_SHOWN: Final = 3  # of one schedule in a cell
SCHEDULES_NAMED: Final = 60  # in the cells of a week
HOURS_A_DAY: Final = 24
LONGEST_CELL: Final = 180  # minutes
KEPT_LOADS: Final = 8
FIRST_DAY: Final = date(1971, 1, 1)
LAST_DAY: Final = date(2199, 12, 31)


@dataclass(frozen=True, slots=True)
class CalendarPlan:
    """What the database says: the rules of the active schedules, and how many schedules are in each other state.

    `rules_hash`: equal for equal rules. `selection`: the schedules that count. `fixed_minutes`: the rules that a
    schedule without `H` for its minute has.
    """

    now: datetime
    rules: dict[TickRule, int]
    rules_hash: int
    states: dict[str, int]
    choices: FilterChoices
    selection: Selection
    fixed_minutes: frozenset[TickRule]


@dataclass(frozen=True, slots=True)
class PileUp:
    """A minute with far more ticks than most. `local`: in the zone of the page."""

    at: datetime
    local: datetime
    count: int


@dataclass(frozen=True, slots=True)
class ScheduleInCell:
    """A schedule with ticks in the chosen cell. `ticks`: the first three; `count`: how many there are."""

    schedule: PlannedSchedule
    words: str
    ticks: tuple[UpcomingTick, ...]
    count: int

    @property
    def form(self) -> str:
        """How its times are written: with seconds if a tick may have some."""
        return "%a %H:%M:%S" if self.schedule.rule.ticks().has_seconds else "%a %H:%M"


@dataclass(frozen=True, slots=True)
class Chosen:
    """The chosen cell and the schedules with ticks in it. `following`: the link to the rest of the list."""

    begin: datetime
    begin_local: datetime
    end_local: datetime
    listed: list[ScheduleInCell]
    schedules: int
    following: str | None


@dataclass(frozen=True, slots=True)
class Calendar:
    """The model of the page. `grid`: for each hour of the local clock a cell for each day.

    `left_out`: so many schedules have a tick each hour or more and do not count; `can_leave_out`: they could.
    `full_minutes`: the minutes of the hour that are full in most hours, for example ":00". `h_would_help`: the fullest
    ones have ticks of schedules with a fixed minute.
    """

    plan: CalendarPlan
    view: Literal["day", "week"]
    zone: str
    unknown_zone: str
    day: date
    days: tuple[date, ...]
    today: date
    grid: Rows
    total: int
    busiest: int
    pile_ups: tuple[PileUp, ...]
    pile_up_count: int
    full_minutes: tuple[str, ...]
    h_would_help: bool
    changes: Sequence[ClockChange]
    chosen: Chosen | None
    query: dict[str, Any]
    zones: tuple[str, ...]
    left_out: int
    can_leave_out: bool

    @property
    def is_filtered(self) -> bool:
        """Whether a filter is set, besides the search."""
        return any(self.query[name] for name in FILTERS if name != "q")

    @property
    def length(self) -> int:
        """The number of days shown."""
        return len(self.days)

    def moved(self, days: int) -> str:
        """The day that many days later, for links."""
        return min(max(self.day + timedelta(days=days), FIRST_DAY), LAST_DAY).isoformat()


class LoadCache:
    """The loads that were computed last. Ten viewers of one day cost as much as one."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, int, int], Load] = OrderedDict()

    async def get(self, plan: CalendarPlan, begin: int, end: int) -> Load:
        """The load of the plan's schedules from the instant `begin` to `end`."""
        key = plan.rules_hash, begin, end
        load = self._kept.get(key)
        if load is None:
            load = self._kept[key] = await asyncio.to_thread(load_of, plan.rules, begin, end)
        self._kept.move_to_end(key)
        while len(self._kept) > KEPT_LOADS:
            self._kept.popitem(last=False)
        return load


loads: Final = LoadCache()


@page("/calendar")
async def calendar(request: BoardRequest) -> Page:
    """Shows the load of a day or a week, and the schedules with ticks in the chosen cell."""
    return Page("calendar.html", await read_calendar(request), "Calendar")


async def read_calendar(request: BoardRequest) -> Calendar:
    """The model of the page, for the day, view, zone and filters of the URL."""
    wanted = schedule_filter(request)
    view = one_of("view", request.query.get("view") or "day", VIEWS) or "day"
    zone, unknown_zone = _zone(request.query.get("zone"))

    async def read(conn: AsyncConnection) -> CalendarPlan:
        return await read_plan(conn, wanted)

    plan = await request.read(("calendar", wanted), read)
    rare = rare_rules(plan.rules) if view == "week" else {}
    can_leave_out = bool(rare) and len(rare) < len(plan.rules)
    frequent = request.query.get("frequent") == "1"
    left_out = 0
    if can_leave_out and not frequent:
        left_out = sum(plan.rules.values()) - sum(rare.values())
        plan = replace(plan, rules=rare, rules_hash=hash(frozenset(rare.items())))
    today = local_time(zone, plan.now).date()
    day = _day(request.query.get("day"), today)
    days = days_of(day, 7 if view == "week" else 1, LAST_DAY)
    by_day = [segments_of(zone, each) for each in days]
    begin, end = _span(by_day)
    load = await loads.get(plan, begin, end)
    query = {
        **filter_query(request),
        "view": view,
        "zone": zone,
        "day": day.isoformat(),
        "frequent": "1" if frequent else None,
    }
    counts = coming(load, plan.now)
    piled = pile_ups(load.counts if plan.selection.is_whole else [])  # a sample has chance pile-ups
    single = [minute for minute in piled.single if counts[minute]]
    named = await _named(request, wanted, plan, begin, end) if view == "week" else []
    grid = Grid(load, counts, frozenset(single), int(plan.now.timestamp()), zone, named)
    begins, noon = local_time(zone, moment_of(load.begin)), len(load.counts) // 120 * 60  # the hour in the middle
    return Calendar(
        plan,
        view,
        zone,
        unknown_zone,
        day,
        tuple(days),
        today,
        grid.of_week(by_day) if view == "week" else grid.of_day(by_day[0]),
        sum(counts),
        max(counts, default=0),
        tuple(_pile_up(zone, load.begin + 60 * minute, counts[minute]) for minute in single[:PILE_UPS_SHOWN]),
        len(single),
        tuple(f":{begins + timedelta(minutes=minute):%M}" for minute in sorted(piled.hourly)),
        await asyncio.to_thread(_h_would_help, plan, load, [*single[:1], *(noon + each for each in piled.hourly[:1])]),
        load.changes[:CHANGES_SHOWN],
        await _chosen(request, wanted, plan, zone, query),
        query,
        _zones(plan, zone),
        left_out,
        can_leave_out,
    )


async def read_plan(conn: AsyncConnection, wanted: ScheduleFilter) -> CalendarPlan:
    """Reads the schedules that count."""
    selection = await sample_schedules(conn, wanted)
    rules, states, fixed_minutes = await tick_rules(conn, wanted, selection)
    return CalendarPlan(
        await Listings(conn).now(),
        rules,
        hash(frozenset(rules.items())),
        states,
        await filter_choices(conn, wanted.namespaces),
        selection,
        fixed_minutes,
    )


def rare_rules(rules: Mapping[TickRule, int]) -> dict[TickRule, int]:
    """The rules with fewer ticks a day than a day has hours."""
    return {rule: schedules for rule, schedules in rules.items() if _ticks_a_day(rule.cron_fields) < HOURS_A_DAY}


@lru_cache(maxsize=4096)
def _ticks_a_day(cron_fields: str) -> int:
    try:
        ticks = ticks_for(cron_fields, "Etc/UTC", "RunAfter", "First")
    except InvalidSchedule:
        return 0
    if isinstance(ticks, DstTicks):
        return ticks.fields.minutes.bit_count() * ticks.fields.hours.bit_count()
    return 86_400 // ticks.every if isinstance(ticks, IntervalTicks) else 1


async def _named(
    request: BoardRequest, wanted: ScheduleFilter, plan: CalendarPlan, begin: int, end: int
) -> list[tuple[str, int]]:
    """The schedules with the minutes from `begin` on that have a tick to come, as bits; empty if they are many."""
    if sum(plan.rules.values()) > SCHEDULES_NAMED:
        return []
    hits = dict(await asyncio.to_thread(rules_with_ticks, list(plan.rules), begin, end))

    async def read(conn: AsyncConnection) -> list[PlannedSchedule]:
        return await schedules_of_rules(conn, wanted, plan.selection, list(hits), SCHEDULES_NAMED)

    found = await request.read(("calendar names", wanted, plan.rules_hash, begin, end), read) if hits else []
    past = max(0, (int(plan.now.timestamp()) - begin) // 60 + 1)
    named = [(one_line(each.name), hits[each.rule] >> past << past) for each in found if each.rule in hits]
    return sorted(named, key=lambda each: each[1].bit_count())  # the rarest first: a cell cuts what is too long


def _h_would_help(plan: CalendarPlan, load: Load, minutes: Sequence[int]) -> bool:
    """Whether a schedule with a fixed minute has a tick in one of these minutes of the load."""
    fixed = plan.fixed_minutes & plan.rules.keys()
    begins = [load.begin + 60 * minute for minute in minutes]
    return any(rules_with_ticks(fixed, begin, begin + 60) for begin in begins)


def _span(by_day: Sequence[Sequence[DaySegment]]) -> tuple[int, int]:
    """From the first instant of the days to the last one."""
    segments = [segment for segments in by_day for segment in segments]
    if not segments:
        raise InvalidValue("this day does not exist in the time zone: choose another one")
    return segments[0].start, segments[-1].end


def _pile_up(zone: str, instant: int, count: int) -> PileUp:
    moment = moment_of(instant)
    return PileUp(moment, local_time(zone, moment), count)


# -- the chosen cell ---------------------------------------------------------------------------------------------------


async def _chosen(
    request: BoardRequest, wanted: ScheduleFilter, plan: CalendarPlan, zone: str, query: dict[str, Any]
) -> Chosen | None:
    """The cell that the URL names: `at`, an instant in UTC, and `minutes`, its length."""
    if not request.query.get("at"):
        return None
    begin, minutes = _at(request.query["at"]), _minutes(request.query.get("minutes"))
    start, end = int(begin.timestamp()), int(begin.timestamp()) + 60 * minutes
    counted_from = max(start, int(plan.now.timestamp()) // 60 * 60 + 60)
    after = _after(request.query.get("after"))
    hits = (
        dict(await asyncio.to_thread(rules_with_ticks, list(plan.rules), counted_from, end))
        if counted_from < end
        else {}
    )

    async def read(conn: AsyncConnection) -> list[PlannedSchedule]:
        return await schedules_of_rules(conn, wanted, plan.selection, list(hits), SCHEDULES_SHOWN + 1, after=after)

    found = await request.read(("calendar cell", wanted, start, counted_from, end, after), read) if hits else []
    shown = found[:SCHEDULES_SHOWN]
    listed = [
        ScheduleInCell(
            schedule,
            words_of(schedule.schedule, schedule.cron_fields),
            _first_ticks(schedule.rule, counted_from, count := schedule.rule.ticks().count(counted_from, end)),
            count,
        )
        for schedule in shown
        if schedule.rule in hits
    ]
    following = None
    if len(found) > SCHEDULES_SHOWN:
        last = shown[-1]
        place = json.dumps([last.namespace, last.name, last.id], ensure_ascii=False, separators=(",", ":"))
        following = request.url("/calendar", **query, at=_instant_text(begin), minutes=minutes, after=place)
    return Chosen(
        begin,
        local_time(zone, begin),
        local_time(zone, moment_of(end)),
        listed,
        sum(plan.rules[rule] for rule in hits),
        following,
    )


def _first_ticks(rule: TickRule, start: int, count: int) -> tuple[UpcomingTick, ...]:
    return upcoming_ticks(rule.ticks(), moment_of(start - 1), min(count, TICKS_SHOWN)).ticks


def _instant_text(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%MZ}"


# -- the URL -----------------------------------------------------------------------------------------------------------


def _zone(name: str | None) -> tuple[str, str]:
    """The zone to show, and the name that is not a zone: then it is UTC, so that every browser gets a page."""
    if not name or name == "UTC":
        return "Etc/UTC", ""
    return (name, "") if name in known_zones() else ("Etc/UTC", name)


def _zones(plan: CalendarPlan, zone: str) -> tuple[str, ...]:
    """The zones to choose from: those of the schedules, UTC and the chosen one."""
    return tuple(sorted({rule.time_zone for rule in plan.rules} | {"Etc/UTC", zone}))


def _day(text: str | None, today: date) -> date:
    if not text:
        return today
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise InvalidValue(f"day is {one_line(text)[:60]!r}: write for example 2027-03-28") from None
    if not FIRST_DAY <= day <= LAST_DAY:
        raise InvalidValue(f"day is {day}: choose one from {FIRST_DAY} to {LAST_DAY}")
    return day


def _at(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None or not FIRST_DAY <= moment.date() <= LAST_DAY:
            raise ValueError(text)  # noqa: TRY301 - one way out for every time that cannot be used
    except ValueError:
        raise InvalidValue(f"at is {one_line(text)[:60]!r}: write for example 2027-03-28T01:00Z") from None
    return moment.astimezone(UTC).replace(second=0, microsecond=0)


def _minutes(text: str | None) -> int:
    if text is None:
        return 60
    if not text.isascii() or not text.isdecimal() or len(text) > 3 or not 1 <= int(text) <= LONGEST_CELL:  # noqa: PLR2004
        raise InvalidValue(f"minutes is {one_line(text)[:60]!r}: write 1 to {LONGEST_CELL}")
    return int(text)


def _after(text: str | None) -> tuple[str, str, int] | None:
    if not text:
        return None
    try:
        namespace, name, schedule_id = json.loads(text)
        if not (isinstance(namespace, str) and isinstance(name, str) and is_id(schedule_id)):
            raise ValueError(text)  # noqa: TRY301 - one way out for every damaged link
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise InvalidValue("the link to this part of the list is damaged: begin with its first page") from None
    return namespace, name, schedule_id
