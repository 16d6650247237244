"""The list of schedules."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from wakeboard.board.access.viewer import Permission
from wakeboard.board.pages.run_bars import BAR_COUNT, Strip, strip_of
from wakeboard.board.pages.schedule_filters import filter_query, one_of, schedule_filter
from wakeboard.board.routing import BoardRequest, Page, page
from wakeboard.dependencies.queries import read_blocking_reasons
from wakeboard.errors import InvalidSchedule, InvalidValue
from wakeboard.text.humanize import runs_after_words
from wakeboard.text.object_ids import is_id
from wakeboard.ticks.cron_words import schedule_in_words
from wakeboard.ticks.upcoming_ticks import local_time
from wakeboard.views.queries.index_order import prefer_index_order
from wakeboard.views.queries.listings import Listings
from wakeboard.views.queries.schedule_list import (
    HEALTHS,
    SORTS,
    STATES,
    filter_choices,
    list_schedules,
    recent_runs,
    schedule_health,
)

if TYPE_CHECKING:
    from wakeboard.store.connection import AsyncConnection
    from wakeboard.views.queries.schedule_list import (
        FilterChoices,
        ListedSchedule,
        RecentRun,
        ScheduleHealth,
    )
    from wakeboard.views.queries.schedule_selection import ScheduleFilter, Sort

PAGE_SIZE: Final = 50


@dataclass(frozen=True, slots=True)
class ScheduleItem:
    """A row of the list. `next_local`: the next tick in the zone of the schedule; None: there is none.

    `blocked`: for what it waits that does not pass by itself.
    """

    schedule: ListedSchedule
    health: ScheduleHealth | None
    last: RecentRun | None
    strip: Strip
    words: str
    next_local: datetime | None
    blocked: str | None

    @property
    def mark(self) -> str:
        """The mark beside its name."""
        return mark_of(self.health, self.schedule.state, blocked=bool(self.blocked), ran=self.last is not None)


def mark_of(health: ScheduleHealth | None, state: str, *, blocked: bool, ran: bool) -> str:
    """The worst that is known of a schedule: failing, retrying, late, blocked, held, new or ok. `ran`: it has a run."""
    known = health.health if health else "ok"
    if known in {"failing", "retrying"}:
        return known
    if state in {"stalled", "circuit open"}:
        return "failing"
    if blocked:
        return "blocked"
    if state in {"paused", "suspended", "removed"}:
        return "held"
    return known if known == "late" or ran else "new"


@dataclass(frozen=True, slots=True)
class Listed:
    """What the database says about one page of the list. `note`: what the list leaves out, in a sentence."""

    now: datetime
    items: list[ScheduleItem]
    total: int
    is_whole: bool
    note: str
    following: tuple[Any, int] | None


@dataclass(frozen=True, slots=True)
class ScheduleList:
    """The model of the page. `following`: the link to the next page; None: this is the last one."""

    listed: Listed
    total: str
    choices: FilterChoices
    query: dict[str, Any]
    sort: Sort
    is_first: bool
    following: str | None
    states: tuple[str, ...] = STATES
    healths: tuple[str, ...] = HEALTHS

    @property
    def filters(self) -> int:
        """How many filters are set, besides the search."""
        return sum(1 for name, value in self.query.items() if value and name != "q")

    @property
    def is_filtered(self) -> bool:
        """Whether the list leaves schedules out."""
        return any(self.query.values())


@page("/schedules")
async def schedules(request: BoardRequest) -> Page:
    """Shows schedules: filtered, sorted, a page at a time."""
    wanted = schedule_filter(request)
    sort = one_of("sort", request.query.get("sort") or "name", SORTS) or "name"
    after = place(request.query.get("after"), sort)

    async def read(conn: AsyncConnection) -> Listed:
        return await read_list(conn, wanted, sort, after)

    async def read_choices(conn: AsyncConnection) -> FilterChoices:
        return await filter_choices(conn, wanted.namespaces)

    listed = await request.read(("schedules", wanted, sort, request.query.get("after")), read)
    query = filter_query(request)
    model = ScheduleList(
        listed,
        f"{listed.total:,}{'' if listed.is_whole or not listed.total else '+'}",
        await request.read(("schedule choices", wanted.namespaces), read_choices),
        query,
        sort,
        after is None,
        listed.following and request.url("/schedules", **query, sort=sort, after=place_text(*listed.following)),
    )
    pausable = await request.permitted_namespaces(Permission.PAUSE)
    may = frozenset[Permission]() if pausable is not None and not pausable else frozenset({Permission.PAUSE})
    return Page("schedules.html", model, "Schedules", may=may)


async def read_list(conn: AsyncConnection, wanted: ScheduleFilter, sort: Sort, after: tuple[Any, int] | None) -> Listed:
    """Reads a page of the list, and the runs of its schedules."""
    await prefer_index_order(conn)
    found = await list_schedules(conn, wanted, sort, PAGE_SIZE, after=after)
    shown = found.rows
    ids = [schedule.id for schedule in shown]
    now = await Listings(conn).now()
    health = await schedule_health(conn, ids)
    blocked = await read_blocking_reasons(conn, [schedule.id for schedule in shown if schedule.runs_after])
    runs = await recent_runs(conn, ids, BAR_COUNT)
    items = [
        ScheduleItem(
            schedule,
            health.get(schedule.id),
            runs[schedule.id][-1] if runs[schedule.id] else None,
            strip_of(runs[schedule.id], now),
            words_of(schedule.schedule, schedule.cron_fields, tuple(schedule.runs_after or ())),
            next_local(schedule.time_zone, schedule.next_run_at) if schedule.state == "active" else None,
            blocked.get(schedule.id),
        )
        for schedule in shown
    ]
    return Listed(now, items, found.total, found.selection.is_whole, found.selection.note, found.following)


@lru_cache(maxsize=4096)
def words_of(cron: str | None, cron_fields: str | None, runs_after: tuple[str, ...] = ()) -> str:
    """When a schedule is due, in plain words; "" for fields that are not computed or that this release cannot read."""
    if runs_after:
        return runs_after_words(runs_after)
    if cron_fields is None:
        return "" if cron else "only on demand"
    try:
        return schedule_in_words(cron_fields)
    except InvalidSchedule:
        return ""


def next_local(zone: str, moment: datetime | None) -> datetime | None:
    """A moment in the zone of a schedule; None for None or an unknown zone."""
    try:
        return None if moment is None else local_time(zone, moment)
    except InvalidSchedule:
        return None


def place_text(key: Any, schedule_id: int) -> str:
    """A place in the list, for the URL."""
    parts = [*([key] if isinstance(key, str) else key), schedule_id]
    return json.dumps(parts, ensure_ascii=False, separators=(",", ":"))


def place(text: str | None, sort: Sort) -> tuple[Any, int] | None:
    """The place that `place_text` has written; None for the first page. Raises InvalidValue."""
    if not text:
        return None
    match _json(text):
        case [str(namespace), str(name), int(schedule_id)] if sort == "name" and is_id(schedule_id):
            return [namespace, name], schedule_id
        case [str(key), int(schedule_id)] if sort != "name" and is_id(schedule_id) and _is_key(key, sort):
            return key, schedule_id
        case _:
            raise InvalidValue("the link to this part of the list is damaged: begin with its first page")


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_key(key: str, sort: Sort) -> bool:
    if sort == "failures":
        return key.isascii() and key.isdecimal() and len(key) <= 9  # noqa: PLR2004 - an integer of SQL
    if key in {"infinity", "-infinity"}:
        return True
    try:
        moment = datetime.fromisoformat(key)
    except ValueError:
        return False
    return moment.tzinfo is not None and "W" not in key  # Postgres reads no dates by week
