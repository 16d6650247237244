"""From options to a filter over runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wakeboard.cli.addressing import find_schedule
from wakeboard.cli.moments import moment_since
from wakeboard.store.reports import RunFilter

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from wakeboard.cli.visit import Visit


async def run_filter(
    visit: Visit,
    statuses: Sequence[str],
    schedule: str | None,
    job_type: str | None,
    queue: str | None,
    since: timedelta | datetime | None,
) -> RunFilter:
    """The filter that the options say. Raises WakeboardError for a schedule that is not there."""
    known = await find_schedule(visit.reports, schedule, removed_too=True) if schedule is not None else None
    return RunFilter(
        statuses=statuses,
        definition_id=known.id if known else None,
        job_type=job_type,
        queue=queue,
        since=moment_since(since, visit.now) if since is not None else None,
    )
