"""Actions that pause and resume: everything, a queue, a schedule, or all schedules that match a filter."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from wakeboard.actions.queries.targets import schedule_targets
from wakeboard.board.access.viewer import Permission
from wakeboard.board.pages.action_forms import (
    ActionForm,
    asked_action,
    next_page,
    read_reason,
    read_span,
    reason_input,
    span_input,
)
from wakeboard.board.pages.action_targets import target_schedule
from wakeboard.board.pages.schedule_filters import FILTERS, schedule_filter
from wakeboard.board.routing import BoardRequest, Redirect
from wakeboard.errors import InvalidValue
from wakeboard.text.humanize import counted
from wakeboard.text.sanitize import one_line
from wakeboard.views.queries.listings import Listings
from wakeboard.views.queries.schedule_list import list_schedules

if TYPE_CHECKING:
    from starlette.routing import Route

    from wakeboard.actions.queries.targets import ScheduleTarget
    from wakeboard.store.connection import AsyncConnection

MOST_SCHEDULES: Final = 1000  # of one pause by filter
ITEMS_SHOWN: Final = 20
MAX_NAME: Final = 128
UNTIL_RESUMED: Final = ""  # the choice of a pause without an end


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseTarget:
    """What is paused or resumed, and where the viewer needs the permission.

    `scopes`: the names of the pauses in the store. `name`: in a sentence. `*_effect`: what happens then, in
    sentences. `next`: the page to return to. `hidden`: the fields of the form that name the target.
    """

    scopes: Sequence[str]
    namespaces: Collection[str | None]
    name: str
    pause_effect: str
    resume_effect: str
    next: str
    hidden: Sequence[tuple[str, str]] = ()
    items: Sequence[str] = ()
    danger: bool = False


FindTarget: TypeAlias = Callable[..., Awaitable[PauseTarget]]


# -- what is paused ----------------------------------------------------------------------------------------------------


async def _everything_or_queue(request: BoardRequest, *, pausing: bool) -> PauseTarget:  # noqa: ARG001
    """What the URL or the form names as `scope`: "all", or "queue:" and a name. Raises InvalidValue."""
    await request.require(Permission.PAUSE, {None})
    scope = (request.values("scope") or [""])[-1]
    queue = scope.removeprefix("queue:")
    if scope != "all" and (scope == queue or not 0 < len(queue) <= MAX_NAME or not queue.isprintable()):
        raise InvalidValue(f"the scope is {one_line(scope)[:60]!r}: write all, or queue: and a name")
    return PauseTarget(
        scopes=(scope,),
        namespaces={None},
        name="everything" if scope == "all" else f"queue {queue}",
        pause_effect=f"No waiting run {'' if scope == 'all' else 'of it '}starts, and no tick becomes a run, during the"
        " pause. Runs that are running go on.",
        resume_effect="Waiting runs start again, and ticks become runs.",
        next="/limits",
        hidden=(("scope", scope),),
        danger=scope == "all",
    )


async def _one_schedule(request: BoardRequest, *, pausing: bool) -> PauseTarget:  # noqa: ARG001
    """The schedule that the path names. Raises NotFound."""
    schedule = await target_schedule(request, Permission.PAUSE)
    return PauseTarget(
        scopes=(f"schedule:{schedule.id}",),
        namespaces={schedule.namespace},
        name=f"{schedule.namespace}/{schedule.name}",
        pause_effect="No tick becomes a run during the pause. Runs that exist go on.",
        resume_effect="Its ticks become runs again; its catch-up policy decides about missed ones. It is paused for:"
        f" {schedule.pause_reason or 'no reason given'}",
        next=f"/schedules/{schedule.id}",
    )


async def _matching_schedules(request: BoardRequest, *, pausing: bool) -> PauseTarget:
    """The schedules of the filter that would change, if the viewer may pause them. Raises InvalidValue."""
    allowed = await request.permitted_namespaces(Permission.PAUSE)
    namespaces: Collection[str | None] = {None} if allowed is None else allowed
    await request.require(Permission.PAUSE, namespaces)
    given = {name: (request.values(name) or [""])[-1] for name in FILTERS}
    wanted = replace(schedule_filter(replace(request, query=given)), namespaces=allowed)

    async def read(conn: AsyncConnection) -> list[ScheduleTarget]:
        listed = await list_schedules(conn, wanted, "name", MOST_SCHEDULES)
        if listed.following:
            raise InvalidValue(f"more than {MOST_SCHEDULES:,} schedules match: narrow the filter, or pause their queue")
        return await schedule_targets(conn, [each.id for each in listed.rows], allowed)

    matching = await request.read(("pause of schedules", wanted), read)
    found = [each for each in matching if each.paused != pausing]
    return PauseTarget(
        scopes=[f"schedule:{each.id}" for each in found],
        namespaces=namespaces,
        name=counted(len(found), "schedule"),
        pause_effect="No tick of them becomes a run during the pause. Runs that exist go on.",
        resume_effect="Their ticks become runs again; the catch-up policy of each decides about missed ones.",
        next="/schedules",
        hidden=[(name, value) for name, value in given.items() if value],
        items=[
            *(f"{each.namespace}/{each.name}" for each in found[:ITEMS_SHOWN]),
            *([f"and {len(found) - ITEMS_SHOWN:,} more"] if len(found) > ITEMS_SHOWN else []),
        ],
    )


# -- the form and the action -------------------------------------------------------------------------------------------


def _form(request: BoardRequest, target: PauseTarget, *, pausing: bool) -> ActionForm:
    verb = "Pause" if pausing else "Resume"
    return ActionForm(
        heading=f"{verb} {target.name}?",
        sentences=[target.pause_effect if pausing else target.resume_effect],
        items=target.items,
        submit=f"{verb} {target.name}",
        path=request.path,
        next=next_page(request, target.next),
        inputs=[
            *([span_input(request, (UNTIL_RESUMED, "until it is resumed"), UNTIL_RESUMED)] if pausing else []),
            reason_input(request, required=pausing),
        ],
        hidden=target.hidden,
        danger=pausing and target.danger,
    )


def _routes(path: str, find_target: FindTarget, *, pausing: bool) -> list[Route]:
    async def form_of(request: BoardRequest, target: PauseTarget) -> ActionForm:
        return _form(request, target, pausing=pausing)

    async def act(request: BoardRequest, target: PauseTarget, form: ActionForm) -> Redirect:
        reason = read_reason(request, required=pausing)
        span = read_span(request, UNTIL_RESUMED) if pausing else None
        async with request.acting(target.namespaces) as store:
            until = await Listings(store.conn).now() + span if span is not None else None
            change = partial(store.pause, until=until) if pausing else store.resume
            changed = [await change(scope, reason) for scope in target.scopes]
        return _answered(target, changed.count(True), form.next, pausing=pausing)

    return asked_action(path, Permission.PAUSE, partial(find_target, pausing=pausing), form_of, act)


def _answered(target: PauseTarget, changed: int, path: str, *, pausing: bool) -> Redirect:
    """The message about a change of so many scopes."""
    verb, total = "Paused" if pausing else "Resumed", len(target.scopes)
    if not total:
        text = "every schedule that matches is paused already" if pausing else "no schedule that matches is paused"
        return Redirect(path, f"Nothing changed: {text}.", problem=True)
    if not changed:
        text = "paused already" if pausing else "not paused"
        return Redirect(path, f"Nothing changed: {target.name} {'was' if total == 1 else 'were'} {text}.", problem=True)
    if changed < total:
        return Redirect(path, f"{verb} {changed:,} of {target.name}; the others had changed meanwhile.")
    return Redirect(path, f"{verb} {target.name}.")


ROUTES: Final = [
    route
    for verb, pausing in (("pause", True), ("resume", False))
    for path, find_target in (
        (f"/{verb}", _everything_or_queue),
        (f"/schedules/{verb}-matching", _matching_schedules),
        (f"/schedules/{{id:int}}/{verb}", _one_schedule),
    )
    for route in _routes(path, find_target, pausing=pausing)
]
