"""From options to a filter over runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wakeboard.cli.lookup import find_schedule
from wakeboard.cli.time_args import moment_since
from wakeboard.store.queries.listings import RunFilter

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from wakeboard.cli.session import Session


async def run_filter(
    session: Session,
    statuses: Sequence[str],
    schedule: str | None,
    job_type: str | None,
    queue: str | None,
    since: timedelta | datetime | None,
) -> RunFilter:
    """The filter that the options say. Raises WakeboardError for a schedule that is not there."""
    known = await find_schedule(session.reports, schedule, removed_too=True) if schedule is not None else None
    return RunFilter(
        statuses=statuses,
        definition_id=known.id if known else None,
        job_type=job_type,
        queue=queue,
        since=moment_since(since, session.now) if since is not None else None,
    )
