"""Finds the run or the schedule that the path of an action names, among those that the viewer may see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wakeboard.actions.queries.targets import RunTarget, ScheduleTarget, run_targets, schedule_targets
from wakeboard.board.pages.errors import NotFound
from wakeboard.text.object_ids import is_id

if TYPE_CHECKING:
    from wakeboard.board.access.viewer import Permission
    from wakeboard.board.routing import BoardRequest


async def target_run(request: BoardRequest) -> RunTarget:
    """The run that the path names. Raises NotFound."""
    run_id: int = request.parts["id"]
    visible = request.viewer.namespaces
    found: list[RunTarget] = []
    if is_id(run_id):
        key = ("action on run", run_id, visible)
        found = await request.read(key, lambda conn: run_targets(conn, [run_id], visible))
    if not found:
        raise NotFound(f"there is no run {run_id}, or it was deleted from the history")
    return found[0]


async def target_schedule(request: BoardRequest, permission: Permission) -> ScheduleTarget:
    """The schedule that the path names, if the viewer has the permission in its namespace. Raises NotFound."""
    schedule_id: int = request.parts["id"]
    visible = request.viewer.namespaces
    found: list[ScheduleTarget] = []
    if is_id(schedule_id):
        key = ("action on schedule", schedule_id, visible)
        found = await request.read(key, lambda conn: schedule_targets(conn, [schedule_id], visible))
    if not found:
        raise NotFound(f"there is no schedule {schedule_id}")
    await request.require(permission, {found[0].namespace})
    return found[0]
