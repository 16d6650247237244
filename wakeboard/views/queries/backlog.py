"""How many runs waited over time, from `backlog_samples`, where `roll_up` writes a row each minute.

A sample counts at most 100,000 runs of each queue and priority. Needs SELECT on the table, which the viewer's and the
operator's role have.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, LiteralString

from psycopg.rows import tuple_row

from wakeboard.store.statements import read

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

KEPT: Final = timedelta(minutes=3)  # workers alone take a sample every 150 s

_BACKLOG: LiteralString = """
select date_bin(%(step)s, sampled_at, %(since)s), max(due)
  from wakeboard.backlog_samples
 where sampled_at >= %(since)s and sampled_at < %(until)s
 group by 1
"""


async def read_backlog(
    conn: psycopg.AsyncConnection[Any], starts: Sequence[datetime], step: timedelta
) -> list[int | None]:
    """The most runs that were due and waited, in each period that begins at `starts` and lasts `step`.

    None: they were not counted. A count holds for three minutes, unless a later one follows.
    """
    values = {"step": step, "since": starts[0] - KEPT // step * step, "until": starts[-1] + step}
    found = {at.astimezone(UTC): due for at, due in await read(conn, tuple_row, _BACKLOG, values)}
    return [
        next((found[at - back * step] for back in range(KEPT // step + 1) if at - back * step in found), None)
        for at in starts
    ]
