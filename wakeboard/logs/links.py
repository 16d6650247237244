"""The address of a run's log in another system."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from uuid import UUID


def link_to_log(template: str, *, run_id: int, run_uuid: UUID, schedule: str | None) -> str:
    """The address of the run's log in another system; "" without a template (WAKEBOARD_LOG_LINK)."""
    values = {"{run_uuid}": str(run_uuid), "{run_id}": str(run_id), "{schedule}": quote(schedule or "", safe="")}
    for name, value in values.items():
        template = template.replace(name, value)
    return template
