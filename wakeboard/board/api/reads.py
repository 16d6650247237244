"""What the API reads: the read model of the pages and of `--json`, in pages by key."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from wakeboard.alerts.queries.alerts import AlertRow
from wakeboard.alerts.queries.page import AlertQueries
from wakeboard.backfills.queries import backfills
from wakeboard.backfills.rules import BackfillPlan, BackfillRow, backfill_plan, backfill_range
from wakeboard.board.access.viewer import Permission
from wakeboard.board.api.endpoints import AFTER, DEFAULT_LIMIT, FIRST_TICK, LAST_TICK, LIMIT, Endpoint, Items, Parameter
from wakeboard.board.pages.audit import FIELDS, audit_filter
from wakeboard.board.pages.backfills import target_backfill, ticks_of_target
from wakeboard.board.pages.calendar import read_calendar
from wakeboard.board.pages.errors import NotFound
from wakeboard.board.pages.limits import read_limits
from wakeboard.board.pages.overview import shown_overview
from wakeboard.board.pages.runs import SORTED_ONCE, SORTS
from wakeboard.board.pages.schedule_filters import FILTERS, one_of, schedule_filter
from wakeboard.board.pages.schedules import SORTS as SCHEDULE_SORTS
from wakeboard.board.pages.schedules import place, place_text
from wakeboard.errors import InvalidValue
from wakeboard.health.findings import LEVELS, Finding
from wakeboard.limits.queries import LimitRow
from wakeboard.text.facts import Fact, Pause
from wakeboard.text.mask_json import mask_json
from wakeboard.text.object_ids import LARGEST_ID, is_id, parse_id
from wakeboard.text.sanitize import one_line
from wakeboard.views.queries.audit import SOURCES, audit_rows
from wakeboard.views.queries.forever_effects import ForeverEffectRow, list_forever_effects
from wakeboard.views.queries.listings import MOST_NAMES, Listings
from wakeboard.views.queries.run_list import position, read_run_page
from wakeboard.views.queries.run_page import read_run_history, read_shown_run
from wakeboard.views.queries.run_situation import read_run_situation
from wakeboard.views.queries.schedule_details import read_next_ticks, read_schedule_details
from wakeboard.views.queries.schedule_list import HEALTHS, STATES, list_schedules, rows_of_schedules
from wakeboard.views.queries.schedule_page import schedules_named
from wakeboard.views.rules.audit_rows import AuditRow
from wakeboard.views.rules.json_types import row_as
from wakeboard.views.rules.run_detail_rows import AttemptRow, EffectRow, RunDetails, StepRow, with_values
from wakeboard.views.rules.run_explanation import explain_run
from wakeboard.views.rules.run_rows import RunRow
from wakeboard.views.rules.run_search import parse_run_search
from wakeboard.views.rules.schedule_rows import NextTicks, ScheduleDetails, ScheduleName, ScheduleRow

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wakeboard.board.routing import BoardRequest
    from wakeboard.store.connection import AsyncConnection
    from wakeboard.ticks.tick_load import ClockChange
    from wakeboard.views.queries.run_list import RunPage

MOST_TICKS: Final = 1000
MAX_KEY: Final = 256  # characters of an effect's key

Given: TypeAlias = "Mapping[str, Any]"


def page_of(rows: Sequence[Any], count: int, key: Callable[[Any], str]) -> Items:
    """A page of `count` rows, of which one more was read. `key`: of a row, behind which the next page begins."""
    return Items(rows[:count], key(rows[count - 1]) if len(rows) > count else None)


def before_id(given: Given) -> int | None:
    """The id that `after` names, in a list with the newest rows first. Raises InvalidValue."""
    if "after" not in given:
        return None
    found = parse_id(given["after"])
    if found is None:
        raise InvalidValue(f"after is {one_line(given['after'])[:60]!r}: write the `next` of the page before")
    return found


def _namespaces(request: BoardRequest, given: Given) -> frozenset[str] | None:
    """The namespaces that the viewer may see, or of them only the one of the parameter `namespace`; None: all."""
    seen, wanted = request.viewer.namespaces, given.get("namespace")
    if wanted is None:
        return seen
    return frozenset({wanted} if seen is None else {wanted} & seen)


# -- runs --------------------------------------------------------------------------------------------------------------


async def found_runs(request: BoardRequest, given: Given) -> Items:
    """The runs that fit a search."""
    search = parse_run_search(given.get("q", ""))
    if search.problem:
        raise InvalidValue(search.problem)
    sort, namespaces, count = given.get("sort", ""), request.viewer.namespaces, given.get("limit", DEFAULT_LIMIT)
    if sort in SORTED_ONCE and "after" in given:
        raise InvalidValue(f"a list with sort={sort} has one page: leave out after")
    at = position(given["after"]) if "after" in given else None

    async def read(conn: AsyncConnection) -> RunPage:
        if sort in SORTED_ONCE:
            return await SORTED_ONCE[sort](conn, search, namespaces=namespaces, count=count)
        return await read_run_page(
            conn, search, namespaces=namespaces, count=count, after=at, oldest_first=sort == "oldest"
        )

    key = ("api runs", search.text, sort, count, at, namespaces)
    found = await request.read(key, read, scans=search.scans)
    following = None if sort in SORTED_ONCE or found.older is None else str(found.older)
    return Items([row_as(RunRow, run) for run in found.runs], following)


async def shown_run(request: BoardRequest, _: Given) -> RunDetails:
    """The run that the path names, without the values of secret keys. Raises NotFound."""
    run_id, namespaces = request.parts["id"], request.viewer.namespaces
    history = None
    if is_id(run_id):
        key = ("run", run_id, namespaces)
        history = await request.read(key, lambda conn: read_run_history(conn, run_id, namespaces=namespaces))
    if history is None:
        raise no_run(run_id)
    return with_values(history.run, masked=True)


def no_run(run_id: int) -> NotFound:
    """The error for a run that is not there, or that the viewer may not see."""
    return NotFound(f"there is no run {run_id}, or it was deleted from the history")


async def _attempts(request: BoardRequest, given: Given) -> Items:
    return Items((await shown_run(request, given)).attempts_made)


async def _steps(request: BoardRequest, given: Given) -> Items:
    return Items((await shown_run(request, given)).steps)


async def _effects(request: BoardRequest, given: Given) -> Items:
    return Items((await shown_run(request, given)).effects)


async def _facts(request: BoardRequest, _: Given) -> Items:
    run_id, namespaces = request.parts["id"], request.viewer.namespaces

    async def read(conn: AsyncConnection) -> Items | None:
        if await read_shown_run(conn, run_id, namespaces=namespaces) is None:
            return None
        situation = await read_run_situation(conn, run_id)
        return None if situation is None else Items(explain_run(situation, with_counts=namespaces is None))

    found = await request.read(("api facts", run_id, namespaces), read) if is_id(run_id) else None
    if found is None:
        raise no_run(run_id)
    return found


# -- schedules ---------------------------------------------------------------------------------------------------------


async def _schedules(request: BoardRequest, given: Given) -> Items:
    wanted, count = schedule_filter(request), given.get("limit", DEFAULT_LIMIT)
    sort = one_of("sort", given.get("sort") or "name", SCHEDULE_SORTS) or "name"
    after = place(given.get("after"), sort)

    async def read(conn: AsyncConnection) -> Items:
        found = await list_schedules(conn, wanted, sort, count, after=after)
        rows = await rows_of_schedules(conn, [each.id for each in found.rows])
        return Items(rows, place_text(*found.following) if found.following else None)

    return await request.read(("api schedules", wanted, sort, count, given.get("after")), read)


async def _schedule(request: BoardRequest, _: Given) -> ScheduleDetails:
    return await _details(request, request.parts["id"])


async def _schedule_by_name(request: BoardRequest, _: Given) -> ScheduleDetails:
    """The schedule of this namespace and name; of several sources the first one, as on its page."""
    namespace, name, namespaces = request.parts["namespace"], request.parts["name"], request.viewer.namespaces
    rows = await request.read(
        ("schedules named", namespace, name, namespaces),
        lambda conn: schedules_named(conn, namespace, name, namespaces),
    )
    if not rows:
        raise NotFound(f"there is no schedule {one_line(f'{namespace}/{name}')}")
    return await _details(request, rows[0]["id"])


async def _details(request: BoardRequest, definition_id: int) -> ScheduleDetails:
    namespaces = request.viewer.namespaces
    found = None
    if is_id(definition_id):
        found = await request.read(
            ("api schedule", definition_id, namespaces),
            lambda conn: read_schedule_details(conn, definition_id, namespaces=namespaces),
        )
    if found is None:
        raise NotFound(f"there is no schedule {definition_id}")
    return replace(found, payload=json.loads(mask_json(json.dumps(found.payload)).text))


async def _names(request: BoardRequest, given: Given) -> Items:
    namespaces, count = _namespaces(request, given), given.get("limit", DEFAULT_LIMIT)
    text, whole = (given["name"], True) if "name" in given else (given.get("q", ""), False)

    async def read(conn: AsyncConnection) -> Items:
        return Items((await Listings(conn).schedule_names(text, whole=whole, namespaces=namespaces))[:count])

    return await request.read(("api names", text, whole, count, namespaces), read)


async def _ticks(request: BoardRequest, given: Given) -> NextTicks:
    definition_id, namespaces, count = request.parts["id"], request.viewer.namespaces, given.get("count", 10)
    found = None
    if is_id(definition_id):
        found = await request.read(
            ("api ticks", definition_id, count, namespaces),
            lambda conn: read_next_ticks(conn, definition_id, count, namespaces=namespaces),
        )
    if found is None:
        raise NotFound(f"there is no schedule {definition_id}")
    return found


# -- everything else ---------------------------------------------------------------------------------------------------


async def _limits(request: BoardRequest, _: Given) -> Items:
    return Items((await read_limits(request)).limits)


async def _pauses(request: BoardRequest, _: Given) -> Items:
    return Items((await read_limits(request)).pauses)


async def _alerts(request: BoardRequest, given: Given) -> Items:
    namespaces, count = request.viewer.namespaces, given.get("limit", DEFAULT_LIMIT)
    before = before_id(given)

    async def read(conn: AsyncConnection) -> Items:
        queries = AlertQueries(conn, namespaces)
        alerts = queries.resolved if given.get("state") == "resolved" else queries.open
        rows = await alerts(count + 1, before)
        page = page_of(rows, count, lambda row: str(row.id))
        return Items([row_as(AlertRow, each) for each in page.items], page.next)

    return await request.read(("api alerts", given.get("state"), count, before, namespaces), read)


async def _audit(request: BoardRequest, given: Given) -> Items:
    query = {name: given.get(name, "").strip() for name in FIELDS}
    wanted = audit_filter(query, request.viewer.namespaces, datetime.now(UTC))
    count, before = given.get("limit", DEFAULT_LIMIT), before_id(given)

    async def read(conn: AsyncConnection) -> list[AuditRow]:
        return await audit_rows(conn, wanted, count + 1, before=before)

    return page_of(await request.read(("api audit", wanted, count, before), read), count, lambda row: str(row.id))


async def _health(request: BoardRequest, _: Given) -> Items:
    namespaces = request.viewer.namespaces
    found = await shown_overview(request, namespaces)
    return Items(
        [
            Finding(level=LEVELS[each.severity], check=each.check, message=each.text, hint=each.hint)
            for each in found.problems
        ]
    )


async def _backfills(request: BoardRequest, given: Given) -> Items:
    namespaces, count, before = _namespaces(request, given), given.get("limit", DEFAULT_LIMIT), before_id(given)
    schedule = given.get("schedule")

    async def read(conn: AsyncConnection) -> list[BackfillRow]:
        return await backfills(conn, count + 1, before=before, definition_id=schedule, namespaces=namespaces)

    rows = await request.read(("api backfills", count, before, schedule, namespaces), read)
    return page_of(rows, count, lambda row: str(row.id))


async def _backfill(request: BoardRequest, _: Given) -> BackfillRow:
    return await target_backfill(request)


async def _backfill_plan(request: BoardRequest, given: Given) -> BackfillPlan:
    found = await ticks_of_target(request)
    wanted = backfill_range(found.rules, given["first"], given["last"], found.now)
    async with request.acting({found.schedule.namespace}) as store:
        known = await store.plan_backfill(found.schedule.id, wanted.ticks)
    return backfill_plan(found.rules, wanted, known, found.history_begins)


@dataclass(frozen=True, slots=True)
class CalendarHour:
    """An hour of the local clock, or the part of it before or after a clock change, and its ticks that are to come."""

    at: datetime
    minutes: int
    ticks: int
    most_in_a_minute: int


@dataclass(frozen=True, slots=True)
class CalendarDay:
    """The ticks to come of a local day. `is_sample`: there are too many schedules, so the numbers are estimates."""

    day: str
    zone: str
    ticks: int
    is_sample: bool
    hours: Sequence[CalendarHour]
    clock_changes: Sequence[ClockChange]


async def _calendar(request: BoardRequest, _: Given) -> CalendarDay:
    found = await read_calendar(request)
    if found.unknown_zone:
        raise InvalidValue(f"zone is {one_line(found.unknown_zone)[:60]!r}: write for example Europe/Lisbon")
    cells = [cell for _, (cell,) in found.grid]
    hours = [CalendarHour(cell.at, cell.minutes, cell.count, cell.peak) for cell in cells if cell.segment]
    is_sample = not found.plan.selection.is_whole
    return CalendarDay(found.day.isoformat(), found.zone, found.total, is_sample, hours, found.changes)


async def _forever_effects(request: BoardRequest, given: Given) -> Items:
    count, key, after = given.get("limit", DEFAULT_LIMIT), given.get("key", "")[:MAX_KEY], given.get("after", "")
    if request.viewer.namespaces is not None:
        return Items([])  # keys belong to all namespaces

    async def read(conn: AsyncConnection) -> list[ForeverEffectRow]:
        return await list_forever_effects(conn, key, after[:MAX_KEY], count + 1)

    return page_of(await request.read(("api effects", count, key, after), read), count, lambda row: row.key)


SEARCH: Final = Parameter("q", "A search, as on the board.")
_FILTERS: Final = tuple(
    Parameter(name, f"Only schedules with this {name}.", choices={"state": STATES, "health": HEALTHS}.get(name, ()))
    for name in FILTERS
    if name != "q"
)
_NAMESPACE: Final = Parameter("namespace", "Only those of schedules in this namespace.")
_WORDS: Final = Parameter("q", "Words; each is part of the name, the job type or the cron expression.")
_AUDIT: Final = (
    Parameter("actor", "Who acted."),
    Parameter("action", "The action, such as retry."),
    Parameter("source", "Through which program.", choices=SOURCES),
    Parameter("run", "The id of a run."),
    Parameter("schedule", "The id of a schedule, or its namespace/name."),
    Parameter("bulk", "The id of a bulk action."),
    Parameter("since", "A time, or 1h, 24h, 7d or 30d."),
)


def _sorted(names: Sequence[str]) -> Parameter:
    return Parameter("sort", "The order.", choices=tuple(name for name in names if name))


READ_ENDPOINTS: Final = [
    Endpoint(
        path="/runs",
        summary="Runs that fit a search, newest first.",
        kind=RunRow,
        is_list=True,
        answer=found_runs,
        parameters=(SEARCH, _sorted(list(SORTS)), LIMIT, AFTER),
    ),
    Endpoint(path="/runs/{id:int}", summary="One run with what happened to it.", kind=RunDetails, answer=shown_run),
    Endpoint(
        path="/runs/{id:int}/attempts",
        summary="Its attempts that did not succeed.",
        kind=AttemptRow,
        is_list=True,
        answer=_attempts,
    ),
    Endpoint(path="/runs/{id:int}/steps", summary="Its steps.", kind=StepRow, is_list=True, answer=_steps),
    Endpoint(path="/runs/{id:int}/effects", summary="Its effects.", kind=EffectRow, is_list=True, answer=_effects),
    Endpoint(
        path="/runs/{id:int}/facts",
        summary="Why it does not run now, or what happened to it.",
        kind=Fact,
        is_list=True,
        answer=_facts,
    ),
    Endpoint(
        path="/schedules",
        summary="Schedules.",
        kind=ScheduleRow,
        is_list=True,
        answer=_schedules,
        parameters=(_WORDS, *_FILTERS, _sorted(list(SCHEDULE_SORTS)), LIMIT, AFTER),
    ),
    Endpoint(
        path="/schedules/names",
        summary="Names of schedules, also of removed ones.",
        kind=ScheduleName,
        is_list=True,
        answer=_names,
        parameters=(
            Parameter("q", "How NAME or NAMESPACE/NAME begins."),
            Parameter("name", "All of NAME or NAMESPACE/NAME, instead of q."),
            _NAMESPACE,
            replace(LIMIT, most=MOST_NAMES),
        ),
    ),
    Endpoint(path="/schedules/{id:int}", summary="One schedule.", kind=ScheduleDetails, answer=_schedule),
    Endpoint(
        path="/schedules/{id:int}/ticks",
        summary="Its next ticks.",
        kind=NextTicks,
        answer=_ticks,
        parameters=(Parameter("count", "How many; 10 without it.", "integer", least=1, most=MOST_TICKS),),
    ),
    Endpoint(
        path="/calendar",
        summary="The ticks to come of a day, by hour.",
        kind=CalendarDay,
        answer=_calendar,
        parameters=(
            Parameter("day", "A date, such as 2027-03-28; today without it."),
            Parameter("zone", "The time zone of the day; UTC without it."),
            _WORDS,
            *_FILTERS,
        ),
    ),
    Endpoint(path="/limits", summary="Limit keys.", kind=LimitRow, is_list=True, answer=_limits),
    Endpoint(path="/pauses", summary="Pauses of everything and of queues.", kind=Pause, is_list=True, answer=_pauses),
    Endpoint(
        path="/alerts",
        summary="Open alerts, or resolved ones.",
        kind=AlertRow,
        is_list=True,
        answer=_alerts,
        parameters=(Parameter("state", "Open ones without it.", choices=("open", "resolved")), LIMIT, AFTER),
    ),
    Endpoint(
        path="/audit",
        summary="What administrators did, newest first.",
        kind=AuditRow,
        is_list=True,
        answer=_audit,
        parameters=(*_AUDIT, LIMIT, AFTER),
    ),
    Endpoint(path="/health", summary="What is wrong, worst first.", kind=Finding, is_list=True, answer=_health),
    Endpoint(
        path="/backfills",
        summary="Backfills, newest first.",
        kind=BackfillRow,
        is_list=True,
        answer=_backfills,
        parameters=(
            _NAMESPACE,
            Parameter("schedule", "Only those of the schedule with this id.", "integer", least=1, most=LARGEST_ID),
            LIMIT,
            AFTER,
        ),
    ),
    Endpoint(path="/backfills/{id:int}", summary="One backfill.", kind=BackfillRow, answer=_backfill),
    Endpoint(
        path="/schedules/{id:int}/backfill",
        summary="What is known about the ticks of a range that a backfill would run.",
        kind=BackfillPlan,
        answer=_backfill_plan,
        parameters=(FIRST_TICK, LAST_TICK),
        permission=Permission.RUN_NOW,
    ),
    Endpoint(
        path="/effects",
        summary="Effects that happen once for ever, by key.",
        kind=ForeverEffectRow,
        is_list=True,
        answer=_forever_effects,
        parameters=(Parameter("key", "How the keys begin."), LIMIT, AFTER),
    ),
]
# The last route: {id:int} precedes it, so a namespace of digits alone has no path for names such as `ticks`.
SCHEDULE_BY_NAME: Final = Endpoint(
    path="/schedules/{namespace:str}/{name:str}",
    summary="One schedule by its name; of several sources the first one.",
    kind=ScheduleDetails,
    answer=_schedule_by_name,
)
