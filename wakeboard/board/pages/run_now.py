"""Runs a schedule now, also with another payload."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from wakeboard.actions.queries.targets import schedule_payload
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
from wakeboard.board.pages.action_targets import target_schedule
from wakeboard.board.routing import BoardRequest, Page, Redirect, action, page
from wakeboard.errors import InvalidValue
from wakeboard.text.humanize import full_stop

if TYPE_CHECKING:
    from wakeboard.actions.queries.targets import ScheduleTarget


async def _run_form(request: BoardRequest, schedule: ScheduleTarget) -> ActionForm:
    stored = await request.read(("payload of schedule", schedule.id), lambda conn: schedule_payload(conn, schedule.id))
    payload = await editable_payload(request, stored, schedule.namespace, definition_id=schedule.id)
    return ActionForm(
        heading=f"Run {schedule.namespace}/{schedule.name} now?",
        sentences=["A run is created, due now, also while the schedule is paused. Its next ticks stay as they are."],
        submit="Run now",
        path=f"/schedules/{schedule.id}/run",
        next=next_page(request, f"/schedules/{schedule.id}"),
        inputs=[reason_input(request)],
        payload=payload.text,
        masked=payload.masked,
        reveal=payload.reveal,
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
    await request.require(Permission.RUN_NOW, {schedule.namespace})
    form = await _run_form(request, schedule)
    try:
        reason = read_reason(request)
        payload = read_payload(request, form.payload)
        async with request.acting({schedule.namespace}) as store:
            run_id, answer = await store.run_now(schedule.id, payload, reason)
    except InvalidValue as exc:
        return replace(form, payload=typed_payload(request) if form.payload is not None else None).page(str(exc))
    if run_id is None:
        return Redirect(form.next, full_stop(f"No run was created: {answer.removeprefix('refused: ')}"), problem=True)
    return Redirect(form.next, "Queued as", link=f"/runs/{run_id}", label=f"run {run_id}")


ROUTES: Final = [ask_run, run_now]
