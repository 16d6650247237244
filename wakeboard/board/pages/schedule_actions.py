"""Actions on schedules: run now (also with another payload), pause and resume, of one schedule or of all that match."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from wakeboard.board.access.viewer import Permission
from wakeboard.board.pages.action_forms import (
    ActionForm,
    editable_payload,
    next_page,
    read_payload,
    read_reason,
    reason_input,
    typed_payload,
)
from wakeboard.board.pages.errors import NotFound
from wakeboard.board.pages.run_actions import MAX_ID
from wakeboard.board.pages.schedule_filters import schedule_filter
from wakeboard.board.routing import BoardRequest, Page, Redirect, action, page
from wakeboard.errors import InvalidValue
from wakeboard.rules.humanize import counted, full_stop
from wakeboard.store.queries.action_targets import ScheduleTarget, schedule_payload, schedule_targets
from wakeboard.store.queries.schedule_list import list_schedules

if TYPE_CHECKING:
    from starlette.routing import Route

    from wakeboard.store.admin_api import AdminStore
    from wakeboard.store.connection import AsyncConnection

MOST_SCHEDULES: Final = 1000  # of one pause by filter
ITEMS_SHOWN: Final = 20
FILTERS: Final = ("q", "namespace", "job_type", "queue", "state", "health")


async def target_schedule(request: BoardRequest) -> ScheduleTarget:
    """The schedule that the path names. Raises NotFound."""
    schedule_id: int = request.parts["id"]
    visible = request.viewer.namespaces
    found: list[ScheduleTarget] = []
    if schedule_id <= MAX_ID:
        found = await request.read(
            ("action on schedule", schedule_id, visible), lambda conn: schedule_targets(conn, [schedule_id], visible)
        )
    if not found:
        raise NotFound(f"there is no schedule {schedule_id}")
    return found[0]


# -- run now -----------------------------------------------------------------------------------------------------------


async def _run_form(request: BoardRequest, schedule: ScheduleTarget) -> ActionForm:
    payload = await request.read(("payload of schedule", schedule.id), lambda conn: schedule_payload(conn, schedule.id))
    return ActionForm(
        heading=f"Run {schedule.namespace}/{schedule.name} now?",
        sentences=["A run is created, due now, also while the schedule is paused. Its next ticks stay as they are."],
        submit="Run now",
        path=f"/schedules/{schedule.id}/run",
        next=next_page(request, f"/schedules/{schedule.id}"),
        inputs=[reason_input(request)],
        payload=await editable_payload(request, payload, schedule.namespace),
    )


@page("/schedules/{id:int}/run")
async def ask_run(request: BoardRequest) -> Page:
    """Asks before a run of a schedule."""
    schedule = await target_schedule(request)
    await request.require(Permission.RUN_NOW, {schedule.namespace})
    return (await _run_form(request, schedule)).page()


@action("/schedules/{id:int}/run", Permission.RUN_NOW)
async def run_now(request: BoardRequest) -> Redirect | Page:
    """Creates a run of a schedule."""
    schedule = await target_schedule(request)
    store = await request.acting({schedule.namespace})
    form = await _run_form(request, schedule)
    try:
        reason = read_reason(request)
        payload = read_payload(request, form.payload or "") if form.payload is not None else None
        run_id, answer = await store.run_now(schedule.id, payload, reason)
    except InvalidValue as exc:
        return replace(form, payload=typed_payload(request) if form.payload is not None else None).page(str(exc))
    if run_id is None:
        return Redirect(form.next, full_stop(f"No run was created: {answer.removeprefix('refused: ')}"), problem=True)
    return Redirect(form.next, "Queued as", link=f"/runs/{run_id}", label=f"run {run_id}")


# -- pause and resume --------------------------------------------------------------------------------------------------


def _pause_form(request: BoardRequest, schedule: ScheduleTarget, *, pausing: bool) -> ActionForm:
    name = f"{schedule.namespace}/{schedule.name}"
    return ActionForm(
        heading=f"{'Pause' if pausing else 'Resume'} {name}?",
        sentences=[
            "No tick becomes a run until it is resumed. Runs that exist go on."
            if pausing
            else f"Its ticks become runs again; its catch-up policy decides about missed ones. It is paused for:"
            f" {schedule.pause_reason or 'no reason given'}"
        ],
        submit="Pause schedule" if pausing else "Resume schedule",
        path=f"/schedules/{schedule.id}/{'pause' if pausing else 'resume'}",
        next=next_page(request, f"/schedules/{schedule.id}"),
        inputs=[reason_input(request, required=pausing)],
    )


async def change_pause(store: AdminStore, scope: str, reason: str, *, pausing: bool) -> str:
    """Pauses or resumes a scope. Returns "" or why nothing changed."""
    if pausing:
        return "" if await store.pause(scope, reason) else "it was paused already"
    return "" if await store.resume(scope, reason) else "it was not paused"


def _pause_routes(*, pausing: bool) -> list[Route]:
    path = f"/schedules/{{id:int}}/{'pause' if pausing else 'resume'}"

    @page(path)
    async def ask(request: BoardRequest) -> Page:
        schedule = await target_schedule(request)
        await request.require(Permission.PAUSE, {schedule.namespace})
        return _pause_form(request, schedule, pausing=pausing).page()

    @action(path, Permission.PAUSE)
    async def act(request: BoardRequest) -> Redirect | Page:
        schedule = await target_schedule(request)
        store = await request.acting({schedule.namespace})
        form = _pause_form(request, schedule, pausing=pausing)
        try:
            reason = read_reason(request, required=pausing)
        except InvalidValue as exc:
            return form.page(str(exc))
        refusal = await change_pause(store, f"schedule:{schedule.id}", reason, pausing=pausing)
        if refusal:
            return Redirect(form.next, full_stop(f"Nothing changed: {refusal}"), problem=True)
        return Redirect(form.next, f"{schedule.namespace}/{schedule.name} is {'paused' if pausing else 'resumed'}.")

    return [ask, act]


# -- all that match ----------------------------------------------------------------------------------------------------


async def _matching(request: BoardRequest, *, pausing: bool) -> list[ScheduleTarget]:
    """The schedules of the filter that would change, if the viewer may pause them. Raises InvalidValue."""
    allowed = await request.permitted_namespaces(Permission.PAUSE)
    given = {name: (request.values(name) or [""])[-1] for name in FILTERS}
    wanted = replace(schedule_filter(replace(request, query=given)), namespaces=allowed)

    async def read(conn: AsyncConnection) -> list[ScheduleTarget]:
        listed = await list_schedules(conn, wanted, "name", MOST_SCHEDULES + 1)
        return await schedule_targets(conn, [each.id for each in listed], allowed)

    found = await request.read(("pause of schedules", wanted), read)
    if len(found) > MOST_SCHEDULES:
        raise InvalidValue(f"more than {MOST_SCHEDULES:,} schedules match: narrow the filter, or pause their queue")
    return [each for each in found if each.paused != pausing]


def _all_form(request: BoardRequest, found: list[ScheduleTarget], *, pausing: bool) -> ActionForm:
    verb = "Pause" if pausing else "Resume"
    return ActionForm(
        heading=f"{verb} {counted(len(found), 'schedule')}?",
        sentences=[
            "No tick of them becomes a run until each is resumed. Runs that exist go on."
            if pausing
            else "Their ticks become runs again; the catch-up policy of each decides about missed ones.",
        ],
        items=[
            *(f"{each.namespace}/{each.name}" for each in found[:ITEMS_SHOWN]),
            *([f"and {len(found) - ITEMS_SHOWN:,} more"] if len(found) > ITEMS_SHOWN else []),
        ],
        submit=f"{verb} {counted(len(found), 'schedule')}",
        path=f"/schedules/{verb.lower()}-matching",
        next=next_page(request, "/schedules"),
        inputs=[reason_input(request, required=pausing)],
        hidden=[(name, value) for name in FILTERS for value in request.values(name)[-1:] if value],
    )


def _all_routes(*, pausing: bool) -> list[Route]:
    path = f"/schedules/{'pause' if pausing else 'resume'}-matching"

    @page(path)
    async def ask(request: BoardRequest) -> Page:
        allowed = await request.permitted_namespaces(Permission.PAUSE)
        await request.require(Permission.PAUSE, {None} if allowed is None else allowed)
        return _all_form(request, await _matching(request, pausing=pausing), pausing=pausing).page()

    @action(path, Permission.PAUSE)
    async def act(request: BoardRequest) -> Redirect | Page:
        allowed = await request.permitted_namespaces(Permission.PAUSE)
        store = await request.acting({None} if allowed is None else allowed)
        found = await _matching(request, pausing=pausing)
        form = _all_form(request, found, pausing=pausing)
        try:
            reason = read_reason(request, required=pausing)
        except InvalidValue as exc:
            return form.page(str(exc))
        answers = [await change_pause(store, f"schedule:{each.id}", reason, pausing=pausing) for each in found]
        changed = answers.count("")
        text = f"{counted(changed, 'schedule')} {'paused' if pausing else 'resumed'}"
        rest = len(found) - changed
        return Redirect(
            form.next, f"{text}; {rest} had changed meanwhile." if rest else f"{text}.", problem=not changed
        )

    return [ask, act]


ROUTES: Final = [
    *_all_routes(pausing=True),
    *_all_routes(pausing=False),
    ask_run,
    run_now,
    *_pause_routes(pausing=True),
    *_pause_routes(pausing=False),
]
