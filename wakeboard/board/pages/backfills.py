"""Backfills: the list, the form that declares one for a schedule, and the actions that pause, resume and cancel one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from wakeboard.backfills.queries import BackfillRow, backfill, backfills
from wakeboard.backfills.rules import CONFIRM_ABOVE, MOST_AT_ONCE, TickRules, backfill_range, counts_in_words
from wakeboard.board.access.viewer import Permission
from wakeboard.board.pages.action_forms import ActionForm, Input, next_page, read_reason, reason_input
from wakeboard.board.pages.action_targets import target_schedule
from wakeboard.board.pages.errors import NotFound
from wakeboard.board.routing import BoardRequest, Page, Redirect, action, page
from wakeboard.errors import InvalidValue
from wakeboard.text.humanize import counted
from wakeboard.text.object_ids import is_id, parse_id
from wakeboard.text.sanitize import one_line, printable
from wakeboard.views.queries.listings import Listings
from wakeboard.views.queries.schedule_page import schedule_row

if TYPE_CHECKING:
    from starlette.routing import Route

    from wakeboard.actions.queries.targets import ScheduleTarget
    from wakeboard.backfills.rules import BackfillRange
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


async def _rules(request: BoardRequest, schedule: ScheduleTarget) -> tuple[TickRules, datetime]:
    async def read(conn: AsyncConnection) -> tuple[TickRules, datetime]:
        row = await schedule_row(conn, schedule.id, None)
        name = f"{schedule.namespace}/{schedule.name}"
        if row is None:
            raise NotFound(f"there is no schedule {one_line(name)}")
        rules = TickRules(name, row["cron_fields"], row["time_zone"], row["dst_gap"], row["dst_overlap"])
        return rules, await Listings(conn).now()

    return await request.read(("ticks of schedule", schedule.id), read)


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


@page("/schedules/{id:int}/backfill")
async def ask_backfill(request: BoardRequest) -> Page:
    """Asks for the range of a backfill."""
    schedule = await target_schedule(request)
    await request.require(Permission.RUN_NOW, {schedule.namespace})
    rules, _ = await _rules(request, schedule)
    return _form(request, schedule, rules.time_zone).page()


@action("/schedules/{id:int}/backfill", Permission.RUN_NOW)
async def declare_backfill(request: BoardRequest) -> Redirect | Page:
    """Declares a backfill."""
    schedule = await target_schedule(request)
    await request.require(Permission.RUN_NOW, {schedule.namespace})
    rules, now = await _rules(request, schedule)
    form = _form(request, schedule, rules.time_zone)
    try:
        wanted: BackfillRange = backfill_range(rules, request.field("first"), request.field("last"), now)
        at_once, again, reason = _at_once(request), _again(request), read_reason(request)
        count = len(wanted.ticks)
        if request.field("preview"):
            async with request.acting({schedule.namespace}) as store:
                found = await store.plan_backfill(schedule.id, wanted.ticks)
            states = counts_in_words(Counter(found.values())) or "none is in the range"
            known = f"{counted(len(found), 'tick')}: {states}."
            return _form(request, schedule, rules.time_zone, known=known).page()
        if count > CONFIRM_ABOVE and request.field("confirmed").strip() != str(count):
            asking = _form(request, schedule, rules.time_zone, confirm=count)
            return asking.page(f"these are {counted(count, 'tick')}; type {count} to confirm")
        async with request.acting({schedule.namespace}) as store:
            made = await store.create_backfill(schedule.id, wanted, at_once=at_once, again=again, reason=reason)
    except InvalidValue as exc:
        return form.page(str(exc))
    if made.id is None:
        return form.page("no tick of the range is left to run; choose to run those once more that have run")
    text = f"Declared backfill {made.id}: {counted(made.total, 'run')}."
    return Redirect(form.next, text, link="/backfills", label="All backfills")


# -- pause, resume, cancel ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillAction:
    """An action on a backfill, and what the form says about it."""

    name: str
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


async def _found(request: BoardRequest) -> BackfillRow:
    """The backfill that the path names. Raises NotFound."""
    number: int = request.parts["id"]
    visible = request.viewer.namespaces
    if is_id(number):
        found = await request.read(("backfill", number), lambda conn: backfill(conn, number))
        if found is not None and (visible is None or _namespace(found) in visible):
            return found
    raise NotFound(f"there is no backfill {number}, or it was deleted")


def _namespace(found: BackfillRow) -> str:
    return found.schedule.partition("/")[0]


def _routes(what: BackfillAction) -> list[Route]:
    path = f"/backfills/{{id:int}}/{what.name}"

    def form_of(request: BoardRequest, found: BackfillRow) -> ActionForm:
        return ActionForm(
            heading=f"{what.name.capitalize()} backfill {found.id} of {found.schedule}?",
            sentences=[f"It is {found.state}: {found.progress}.", what.effect],
            submit=f"{what.name.capitalize()} backfill",
            path=request.path,
            next=next_page(request, f"/schedules/{found.definition_id}"),
            inputs=[reason_input(request)],
            danger=what.danger,
        )

    @page(path)
    async def ask(request: BoardRequest) -> Page:
        found = await _found(request)
        await request.require(what.permission, {_namespace(found)})
        return form_of(request, found).page()

    @action(path, what.permission)
    async def act(request: BoardRequest) -> Redirect | Page:
        found = await _found(request)
        await request.require(what.permission, {_namespace(found)})
        form = form_of(request, found)
        try:
            reason = read_reason(request)
        except InvalidValue as exc:
            return form.page(str(exc))
        async with request.acting({_namespace(found)}) as store:
            if what.name == "cancel":
                changed = (await store.cancel_backfill(found.id, reason)).changed
            else:
                change = store.pause if what.name == "pause" else store.resume
                changed = await change(f"backfill:{found.id}", reason)
        if not changed:
            return Redirect(form.next, f"Nothing changed: backfill {found.id} was {found.state}.", problem=True)
        return Redirect(form.next, f"{what.done} backfill {found.id}.")

    return [ask, act]


ROUTES: Final = [
    backfill_list,
    ask_backfill,
    declare_backfill,
    *(route for what in ACTIONS for route in _routes(what)),
]
