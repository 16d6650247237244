"""The page of one schedule: what it declares, its next ticks, what holds it, and what its runs did."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from wakeboard.backfills.queries import backfills
from wakeboard.board.pages.audit import audit_of_schedule
from wakeboard.board.pages.errors import NotFound
from wakeboard.board.pages.run_bars import BAR_COUNT, Strip, strip_of
from wakeboard.board.pages.run_charts import read_run_charts, scope_of
from wakeboard.board.pages.schedules import mark_of, words_of
from wakeboard.board.routing import BoardRequest, Page, page
from wakeboard.dependencies.queries import read_blocking_reasons
from wakeboard.errors import InvalidSchedule, InvalidValue
from wakeboard.schedules.rules.spec_document import document_text, spec_document, yaml_text
from wakeboard.text.humanize import expectation
from wakeboard.text.mask_json import mask_json
from wakeboard.text.object_ids import is_id
from wakeboard.text.sanitize import one_line, shortened
from wakeboard.ticks.compiled_ticks import ticks_for
from wakeboard.ticks.upcoming_ticks import UpcomingTicks, upcoming_ticks
from wakeboard.ticks.zones import zone_info
from wakeboard.views.queries.index_order import prefer_index_order
from wakeboard.views.queries.schedule_list import recent_runs, schedule_health
from wakeboard.views.queries.schedule_page import (
    limit_use,
    live_runs,
    past_runs,
    schedule_row,
    schedules_named,
    week_of_runs,
)
from wakeboard.views.queries.schedule_situation import read_schedule_situation
from wakeboard.views.rules.run_search import quoted
from wakeboard.views.rules.schedule_explanation import explain_schedule

if TYPE_CHECKING:
    from wakeboard.backfills.rules import BackfillRow
    from wakeboard.board.pages.run_charts import RunCharts
    from wakeboard.store.connection import AsyncConnection
    from wakeboard.text.facts import Fact
    from wakeboard.views.queries.schedule_list import ScheduleHealth
    from wakeboard.views.queries.schedule_page import LimitUse, WeekOfRuns
    from wakeboard.views.rules.audit_rows import AuditRow
    from wakeboard.views.rules.run_rows import RunRow
    from wakeboard.views.rules.schedule_explanation import ScheduleSituation, State

TICKS_SHOWN: Final = 10
LIVE_SHOWN: Final = 10
PAST_SHOWN: Final = 25
BACKFILLS_SHOWN: Final = 5
_SHOWN_PAYLOAD: Final = 300  # characters
SHOWN_ELSEWHERE: Final = frozenset(
    {
        "advice",
        "after",
        "due",
        "ended",
        "last_run",
        "maintenance",
        "next_tick",
        "on_demand",
        "resume",
        "skipped",
        "unfinished",
    }
)


@dataclass(frozen=True, slots=True)
class PastRun:
    """A run in the history. `share`: its duration as a part of the longest one shown, from 0 to 100."""

    run: RunRow
    share: float


@dataclass(frozen=True, slots=True)
class Found:
    """What the database says about one schedule. `schedule`: the columns of its row.

    `limit`: the use of its limit key, which may be shared with any namespace; None for viewers who may not see all.
    """

    now: datetime
    schedule: dict[str, Any]
    situation: ScheduleSituation
    facts: list[Fact]
    health: ScheduleHealth | None
    strip: Strip
    limit: LimitUse | None
    live: list[RunRow]
    past: list[PastRun]
    older: RunRow | None
    week: list[WeekOfRuns]
    backfills: list[BackfillRow]
    blocked: str | None

    @property
    def state(self) -> State:
        """What decides whether its ticks become runs."""
        return self.situation.state

    @property
    def mark(self) -> str:
        """The mark beside its name, as in the list of schedules."""
        return mark_of(self.health, self.state, blocked=self.blocked is not None, ran=bool(self.strip.bars))

    @property
    def is_due(self) -> bool:
        """Whether a tick is due that has not become a run yet."""
        due = self.schedule["next_run_at"]
        return self.state == "active" and due is not None and due <= self.now


@dataclass(frozen=True, slots=True)
class ScheduleModel:
    """The model of the page.

    `ticks`: None if there are none or they cannot be computed, then `ticks_error` says why. `ticks_from`: they are the
    first ones after this time. `written`: the YAML as users write it, with `masked` values of its payload hidden
    because of their keys; `payload`: its beginning, in one line; `defaults`: the fields that it leaves out.
    `same_name`: other schedules with this name, by source. `older`: the link to earlier runs. `charts`: of its runs.
    """

    found: Found
    words: str
    ticks: UpcomingTicks | None
    ticks_error: str
    ticks_from: datetime
    ticks_from_text: str
    written: str
    payload: str
    masked: int
    expects: str | None
    defaults: str
    same_name: list[dict[str, Any]]
    only_skipped: bool
    is_first: bool
    older: str | None
    actions: list[AuditRow]
    charts: RunCharts
    live_shown: int = LIVE_SHOWN

    @property
    def may_resume(self) -> bool:
        """Whether the schedule has a pause of its own, or its circuit is open."""
        return self.found.situation.circuit_opened_at is not None or any(
            pause.kind == "schedule" for pause in self.found.situation.pauses
        )

    @property
    def path(self) -> str:
        """The path of the page."""
        return f"/schedules/{self.found.schedule['id']}"

    @property
    def run_search(self) -> str:
        """The search for its runs on the page of runs."""
        namespace, name = self.found.schedule["namespace"], self.found.schedule["name"]
        return f"schedule:{quoted(f'{namespace}/{name}')}"


@page("/schedules/{id:int}")
async def schedule(request: BoardRequest) -> Page:
    """Shows a schedule by its id."""
    return await _schedule(request, request.parts["id"])


@page("/schedules/{namespace}/{name:path}")
async def schedule_by_name(request: BoardRequest) -> Page:
    """Shows a schedule by its namespace and name. Of several sources the first one, with links to the others."""
    namespace, name = request.parts["namespace"], request.parts["name"]
    visible = request.viewer.namespaces

    async def read(conn: AsyncConnection) -> list[dict[str, Any]]:
        return await schedules_named(conn, namespace, name, visible)

    found = await request.read(("schedules named", namespace, name, visible), read)
    if not found:
        raise NotFound(f"there is no schedule {one_line(f'{namespace}/{name}')}")
    return await _schedule(request, found[0]["id"], same_name=found[1:])


async def _schedule(request: BoardRequest, schedule_id: int, same_name: list[dict[str, Any]] | None = None) -> Page:
    visible = request.viewer.namespaces
    before = _before(request.query.get("before"))
    only_skipped = request.query.get("runs") == "skipped"

    async def read(conn: AsyncConnection) -> Found:
        return await read_schedule(conn, schedule_id, visible, before=before, only_skipped=only_skipped)

    if not is_id(schedule_id):
        raise NotFound(f"there is no schedule {schedule_id}")
    found = await request.read(("schedule", schedule_id, visible, before, only_skipped), read)
    row = found.schedule
    starts = _ticks_from(request.query.get("from"), row["time_zone"], found.now)
    ticks, error = _ticks(row, starts)
    payload = mask_json(json.dumps(row["payload"], ensure_ascii=False))
    expected = row["expect_success_within_s"]
    written, defaults = spec_document({**row, "payload": json.loads(payload.text)})
    model = ScheduleModel(
        found,
        words_of(row["schedule"], row["cron_fields"], tuple(parent.name for parent in found.situation.parents)),
        ticks,
        error,
        starts,
        request.query.get("from", ""),
        document_text(row["namespace"], row["name"], written),
        shortened(one_line(payload.text), _SHOWN_PAYLOAD),
        payload.masked,
        None if expected is None else expectation(expected, row["alert_after_missed"]),
        yaml_text(defaults),
        same_name or [],
        only_skipped,
        before is None,
        found.older
        and request.url(
            f"/schedules/{schedule_id}",
            runs="skipped" if only_skipped else None,
            before=_before_text(found.older),
        ),
        await audit_of_schedule(request, schedule_id),
        await read_run_charts(request, scope_of("schedule", str(schedule_id), f"{row['namespace']}/{row['name']}")),
    )
    may = await request.permissions(row["namespace"])
    return Page("schedule.html", model, one_line(f"{row['namespace']}/{row['name']}"), may=may)


async def read_schedule(
    conn: AsyncConnection,
    schedule_id: int,
    namespaces: frozenset[str] | None,
    *,
    before: tuple[datetime, int] | None = None,
    only_skipped: bool = False,
) -> Found:
    """Reads the model. Raises NotFound if there is no such schedule in these namespaces."""
    await prefer_index_order(conn)
    row = await schedule_row(conn, schedule_id, namespaces)
    situation = await read_schedule_situation(conn, schedule_id) if row else None
    if row is None or situation is None:
        raise NotFound(f"there is no schedule {schedule_id}")
    now = situation.now
    past = await past_runs(conn, schedule_id, PAST_SHOWN + 1, before=before, skipped=only_skipped)
    return Found(
        now,
        row,
        situation,
        _facts(situation, with_counts=namespaces is None),
        (await schedule_health(conn, [schedule_id])).get(schedule_id),
        strip_of((await recent_runs(conn, [schedule_id], BAR_COUNT))[schedule_id], now),
        await limit_use(conn, row["limit_key"]) if row["limit_key"] and namespaces is None else None,
        await live_runs(conn, schedule_id, LIVE_SHOWN + 1) if before is None and not only_skipped else [],
        _with_durations(past[:PAST_SHOWN]),
        past[PAST_SHOWN - 1] if len(past) > PAST_SHOWN else None,
        await week_of_runs(conn, schedule_id),
        await backfills(conn, BACKFILLS_SHOWN, definition_id=schedule_id),
        (await read_blocking_reasons(conn, [schedule_id])).get(schedule_id) if situation.parents else None,
    )


def _facts(situation: ScheduleSituation, *, with_counts: bool) -> list[Fact]:
    """What stops its ticks or its runs, without what the page shows anyway."""
    facts = explain_schedule(situation, with_counts=with_counts)
    return [fact for fact in facts if fact.name not in SHOWN_ELSEWHERE]


def _with_durations(runs: list[RunRow]) -> list[PastRun]:
    longest = max((run.duration for run in runs if run.duration), default=None)
    return [PastRun(run, round(100 * (run.duration / longest), 1) if run.duration and longest else 0.0) for run in runs]


def _ticks(row: dict[str, Any], starts: datetime) -> tuple[UpcomingTicks | None, str]:
    if row["cron_fields"] is None:
        return None, ""
    try:
        ticks = ticks_for(row["cron_fields"], row["time_zone"], row["dst_gap"], row["dst_overlap"])
        return upcoming_ticks(ticks, starts, TICKS_SHOWN), ""
    except InvalidSchedule as error:
        return None, str(error)


def _ticks_from(text: str | None, zone: str, now: datetime) -> datetime:
    """The time that the URL names, in the zone of the schedule unless it has an offset; without one, now."""
    if not text:
        return now
    try:
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=zone_info(zone))
        if not 1970 < moment.year < 9000:  # noqa: PLR2004 - the years for which ticks are computed
            raise ValueError(text)  # noqa: TRY301 - one way out for every time that cannot be used
    except (ValueError, InvalidSchedule):
        raise InvalidValue(f"from is {one_line(text)[:60]!r}: write for example 2027-03-28T00:00") from None
    return moment


def _before_text(run: RunRow) -> str:
    return json.dumps([run.finished_at.isoformat() if run.finished_at else "", run.id], separators=(",", ":"))


def _before(text: str | None) -> tuple[datetime, int] | None:
    if not text:
        return None
    try:
        moment, run_id = json.loads(text)
        before = datetime.fromisoformat(moment), run_id
        if before[0].tzinfo is None or not is_id(run_id):
            raise ValueError(text)  # noqa: TRY301 - one way out for every damaged link
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise InvalidValue("the link to earlier runs is damaged: begin with the newest ones") from None
    return before
