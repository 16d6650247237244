"""Runs a schedule now, also with another payload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wakeboard.actions.queries.targets import schedule_payload
from wakeboard.board.access.viewer import Permission
from wakeboard.board.pages.action_forms import (
    ActionForm,
    asked_action,
    editable_payload,
    next_page,
    read_payload,
    read_reason,
    reason_input,
)
from wakeboard.board.pages.action_targets import target_schedule
from wakeboard.board.routing import BoardRequest, Redirect
from wakeboard.text.humanize import full_stop

if TYPE_CHECKING:
    from wakeboard.actions.queries.targets import ScheduleTarget


async def _schedule(request: BoardRequest) -> ScheduleTarget:
    return await target_schedule(request, Permission.RUN_NOW)


async def _form(request: BoardRequest, schedule: ScheduleTarget) -> ActionForm:
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


async def _run_now(request: BoardRequest, schedule: ScheduleTarget, form: ActionForm) -> Redirect:
    reason, payload = read_reason(request), read_payload(request, form.payload)
    async with request.acting({schedule.namespace}) as store:
        run_id, answer = await store.run_now(schedule.id, payload, reason)
    if run_id is None:
        why = full_stop(f"No run was created: {answer.removeprefix('refused: ')}")
        return Redirect(form.next, why, problem=True, answer=answer)
    return Redirect(form.next, "Queued as", link=f"/runs/{run_id}", label=f"run {run_id}", answer=answer)


ROUTES: Final = asked_action("/schedules/{id:int}/run", Permission.RUN_NOW, _schedule, _form, _run_now)
