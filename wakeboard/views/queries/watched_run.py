"""What a browser with a run token sees of the run: progress, steps and result, and no payload, error or worker.

Needs SELECT on the tables.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, LiteralString

from psycopg.rows import dict_row

from wakeboard.store.statements import read
from wakeboard.text.mask_json import mask_json
from wakeboard.views.queries.run_details import ReadBounds, read_steps

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    import psycopg

MOST_RESULT: Final = 65_536  # characters
BOUNDS: Final = ReadBounds(attempts=0, steps=100, step_result=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedStep:
    """A named part of the run. `state`: done, running, failed, or interrupted. `progress`: from 0 to 1, unless done."""

    name: str
    state: str
    progress: float | None
    progress_message: str | None
    started_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedRun:
    """A run as a run token shows it.

    `status`: queued, running, failed (it is tried again at `run_at`), dead (an administrator may retry it), or the end:
    succeeded, cancelled, discarded, skipped. `progress`: from 0 to 1, of a run that has not ended. `result`: without
    values of keys such as `password`; null if it has none, or one of more than 65,536 characters. `result_length`: of
    its JSON text.
    """

    uuid: UUID
    status: str
    progress: float | None
    progress_message: str | None
    created_at: datetime
    run_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    result: Any
    result_length: int | None
    steps: Sequence[WatchedStep]


_LIVE: LiteralString = """
select uuid, status::text, progress, progress_message, created_at, run_at, nullif(started_at, 'epoch') as started_at,
       null::timestamptz as finished_at, null::text as result, null::integer as result_length, lease_epoch
  from wakeboard.job_runs
 where id = %(id)s and uuid = %(uuid)s
"""
_PAST: LiteralString = """
select uuid, case status when 'dead' then 'discarded' else status::text end as status, null::real as progress,
       null::text as progress_message, created_at, run_at, nullif(started_at, 'epoch') as started_at, finished_at,
       case when length(result::text) <= %(most)s then result::text end as result,
       length(result::text) as result_length, lease_epoch
  from wakeboard.job_run_history
 where id = %(id)s and uuid = %(uuid)s
 limit 1
"""


async def read_watched_run(conn: psycopg.AsyncConnection[Any], run_id: int, uuid: UUID) -> WatchedRun | None:
    """The run with this id and uuid; None: there is none, or it was deleted."""
    wanted = {"id": run_id, "uuid": uuid, "most": MOST_RESULT}
    # In this order: a run may finish between the two reads, but never returns from history.
    found = await read(conn, dict_row, _LIVE, wanted) or await read(conn, dict_row, _PAST, wanted)
    if not found:
        return None
    row = found[0]
    epoch = row.pop("lease_epoch")
    values = {**BOUNDS._asdict(), "id": run_id, "epoch": epoch, "running": row["status"] == "running"}
    steps = [
        WatchedStep(
            name=step.name,
            state=step.state,
            progress=step.progress,
            progress_message=step.progress_message,
            started_at=step.started_at,
            ended_at=step.ended_at,
        )
        for step in await read_steps(conn, values)
    ]
    result = row.pop("result")
    return WatchedRun(**row, result=None if result is None else json.loads(mask_json(result).text), steps=steps)
