"""Backfills: the list, the form that declares one for a schedule, and the actions that pause, resume and cancel one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from wakeboard.backfills.queries import backfill, backfills, history_begins
from wakeboard.backfills.rules import (
    CONFIRM_ABOVE,
    MOST_AT_ONCE,
    BackfillChange,
    BackfillRow,
    TickRules,
    backfill_range,
    counts_in_words,
)
from wakeboard.board.access.viewer import Permission
from wakeboard.board.pages.action_forms import ActionForm, Input, asked_action, next_page, read_reason, reason_input
from wakeboard.board.pages.action_targets import target_schedule
from wakeboard.board.pages.errors import NotFound
from wakeboard.board.routing import BoardRequest, Page, Redirect, page
from wakeboard.errors import InvalidValue
from wakeboard.text.humanize import counted
from wakeboard.text.object_ids import is_id, parse_id
from wakeboard.text.sanitize import one_line, printable
from wakeboard.views.queries.listings import Listings
from wakeboard.views.queries.schedule_page import schedule_row

if TYPE_CHECKING:
    from starlette.routing import Route

    from wakeboard.actions.queries.targets import ScheduleTarget
    from wakeboard.store.connection import AsyncConnection

PAGE_SIZE: Final = 50
LONGEST_FIELD: Final = 60  # characters
AGAIN: Final = "again"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillList:
    """The model of the list. `older`: where the next page begins; None: this is the last one."""

    now: datetime
    backfills: list[BackfillRow]
    is_first: bool
    older: int | None


@page("/backfills")
async def backfill_list(request: BoardRequest) -> Page:
    """Shows backfills, newest first."""
    before = parse_id(request.query.get("before", ""))
    visible = request.viewer.namespaces

    async def read(conn: AsyncConnection) -> list[BackfillRow]:
        return await backfills(conn, PAGE_SIZE + 1, before=before, namespaces=visible)

    found = await request.read(("backfills", before, visible), read)
    model = BackfillList(
        now=datetime.now(UTC),
        backfills=found[:PAGE_SIZE],
        is_first=before is None,
        older=found[PAGE_SIZE - 1].id if len(found) > PAGE_SIZE else None,
    )
    return Page("backfills.html", model, "Backfills")


# -- declaring ---------------------------------------------------------------------------------------------------------


def _form(
    request: BoardRequest, schedule: ScheduleTarget, zone: str, *, confirm: int = 0, known: str = ""
) -> ActionForm:
    """The form with what was typed. `confirm`: so many ticks must be confirmed. `known`: what is known of the ticks."""

    def typed(name: str, otherwise: str = "") -> str:
        return printable(request.field(name))[:LONGEST_FIELD] if request.form else otherwise

    inputs = [
        Input(name="first", label=f"From, in {zone}", value=typed("first"), moment=True),
        Input(name="last", label="To", value=typed("last"), moment=True, hint="The range ends before this time."),
        Input(name="at_once", label="Most runs at once", value=typed("at_once", "1"), numeric=True, max_length=7),
        Input(
            name="again",
            label="Ticks that have run",
            value=typed("again"),
            choices=(("", "leave them as they are"), (AGAIN, "run them once more")),
        ),
        reason_input(request),
    ]
    if confirm:
        inputs.append(Input(name="confirmed", label=f"Type {confirm} to confirm", required=True, numeric=True))
    return ActionForm(
        heading=f"Backfill {schedule.namespace}/{schedule.name}?",
        sentences=[
            "The ticks of the range become runs of the lowest priority, each once. Skipped ticks run, too.",
            *filter(None, [known]),
        ],
        submit="Backfill",
        preview="Count ticks",
        path=f"/schedules/{schedule.id}/backfill",
        next=next_page(request, f"/schedules/{schedule.id}"),
        inputs=inputs,
    )


@dataclass(frozen=True, slots=True)
class TargetTicks:
    """A schedule, the rules of its ticks, the database's clock, and when the history begins, as `history_begins`."""

    schedule: ScheduleTarget
    rules: TickRules
    now: datetime
    history_begins: datetime | None


async def ticks_of_target(request: BoardRequest) -> TargetTicks:
    """The schedule that the path names, if the viewer may run it. Raises NotFound."""
    schedule = await target_schedule(request, Permission.RUN_NOW)

    async def read(conn: AsyncConnection) -> tuple[TickRules, datetime, datetime | None]:
        row = await schedule_row(conn, schedule.id, None)
        name = f"{schedule.namespace}/{schedule.name}"
        if row is None:
            raise NotFound(f"there is no schedule {one_line(name)}")
        rules = TickRules(name, row["cron_fields"], row["time_zone"], row["dst_gap"], row["dst_overlap"])
        return rules, await Listings(conn).now(), await history_begins(conn, schedule.id)

    return TargetTicks(schedule, *await request.read(("ticks of schedule", schedule.id), read))


def _at_once(request: BoardRequest) -> int:
    text = request.field("at_once").strip() or "1"
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= MOST_AT_ONCE):
        raise InvalidValue(f"write a whole number from 1 to {MOST_AT_ONCE:,} as the most runs at once")
    return int(text[:9])


def _again(request: BoardRequest) -> bool:
    text = request.field("again").strip().lower()
    if text not in {"", AGAIN}:
        raise InvalidValue(f"again is {AGAIN} or nothing")
    return bool(text)


async def _declare(request: BoardRequest, ticks: TargetTicks, form: ActionForm) -> Redirect | Page:
    schedule, zone = ticks.schedule, ticks.rules.time_zone
    wanted = backfill_range(ticks.rules, request.field("first"), request.field("last"), ticks.now)
    at_once, again, reason = _at_once(request), _again(request), read_reason(request)
    count = len(wanted.ticks)
    if request.field("preview"):
        async with request.acting({schedule.namespace}) as store:
            found = await store.plan_backfill(schedule.id, wanted.ticks)
        states = counts_in_words(Counter(found.values())) or "none is in the range"
        return _form(request, schedule, zone, known=f"{counted(len(found), 'tick')}: {states}.").page()
    if count > CONFIRM_ABOVE and request.field("confirmed").strip() != str(count):
        asking = _form(request, schedule, zone, confirm=count)
        return asking.page(f"these are {counted(count, 'tick')}; type {count} to confirm")
    async with request.acting({schedule.namespace}) as store:
        made = await store.create_backfill(schedule.id, wanted, at_once=at_once, again=again, reason=reason)
    if made.id is None:
        raise InvalidValue("no tick of the range is left to run; choose to run those once more that have run")
    text = f"Declared backfill {made.id}: {counted(made.total, 'run')}."
    return Redirect(form.next, text, link="/backfills", label="All backfills", created=f"/backfills/{made.id}")


async def _asking(request: BoardRequest, ticks: TargetTicks) -> ActionForm:
    return _form(request, ticks.schedule, ticks.rules.time_zone)


# -- pause, resume, cancel ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillAction:
    """An action on a backfill, and what the form says about it."""

    name: BackfillChange
    permission: Permission
    effect: str
    done: str
    danger: bool = False


ACTIONS: Final = (
    BackfillAction(
        name="pause", permission=Permission.PAUSE, effect="No run of it starts. Running ones go on.", done="Paused"
    ),
    BackfillAction(name="resume", permission=Permission.PAUSE, effect="Its runs start again.", done="Resumed"),
    BackfillAction(
        name="cancel",
        permission=Permission.CANCEL,
        effect="Its queued and failed runs are cancelled, and running ones are asked to stop. Dead ones stay.",
        done="Cancelled",
        danger=True,
    ),
)


async def target_backfill(request: BoardRequest) -> BackfillRow:
    """The backfill that the path names, if the viewer may see it. Raises NotFound."""
    number: int = request.parts["id"]
    visible = request.viewer.namespaces
    found = await request.read(("backfill", number), lambda conn: backfill(conn, number)) if is_id(number) else None
    if found is None or (visible is not None and _namespace(found) not in visible):
        raise NotFound(f"there is no backfill {number}, or it was deleted")
    return found


def _routes(what: BackfillAction) -> list[Route]:
    async def find(request: BoardRequest) -> BackfillRow:
        found = await target_backfill(request)
        await request.require(what.permission, {_namespace(found)})
        return found

    async def form_of(request: BoardRequest, found: BackfillRow) -> ActionForm:
        return ActionForm(
            heading=f"{what.name.capitalize()} backfill {found.id} of {found.schedule}?",
            sentences=[f"It is {found.state}: {found.progress}.", what.effect],
            submit=f"{what.name.capitalize()} backfill",
            path=request.path,
            next=next_page(request, f"/schedules/{found.definition_id}"),
            inputs=[reason_input(request)],
            danger=what.danger,
        )

    async def act(request: BoardRequest, found: BackfillRow, form: ActionForm) -> Redirect:
        reason = read_reason(request)
        async with request.acting({_namespace(found)}) as store:
            done = await store.change_backfill(found.id, what.name, reason)
        if done is None:
            return Redirect(form.next, f"Nothing changed: backfill {found.id} was {found.state}.", problem=True)
        return Redirect(form.next, f"{what.done} backfill {found.id}.", answer=done)

    return asked_action(f"/backfills/{{id:int}}/{what.name}", what.permission, find, form_of, act)


def _namespace(found: BackfillRow) -> str:
    return found.schedule.partition("/")[0]


ROUTES: Final = [
    backfill_list,
    *asked_action("/schedules/{id:int}/backfill", Permission.RUN_NOW, ticks_of_target, _asking, _declare),
    *(route for what in ACTIONS for route in _routes(what)),
]
