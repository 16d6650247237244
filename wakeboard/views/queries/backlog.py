"""The work of each queue, now and soon, and how many runs waited over time.

What `roll_up` writes into `backlog_samples` each minute counts at most 100,000 runs of each queue and priority. Needs
SELECT on that table, which the viewer's and the operator's role have.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, LiteralString

from psycopg.rows import class_row, tuple_row

from wakeboard.store.statements import read
from wakeboard.views.queries.listings import Listings

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

MAX_QUEUES: Final = 200
MAX_ROWS: Final = 1000  # of each queue and priority
KEPT: Final = timedelta(minutes=3)  # workers alone take a sample every 150 s


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """A queue. `due`: runs that execute or are due; `soon`: those that become due soon; `ticks`: of schedules, by then.

    Numbers above MAX_ROWS are lower bounds. `pools`: those with workers that serve it. `paused`: it, or everything, is.
    """

    queue: str
    due: int
    soon: int
    ticks: int
    pools: list[str]
    paused: bool


_QUEUES: LiteralString = """
select queue, due, soon, ticks,
       array(select distinct pool from wakeboard.worker_types as known
              where known.queue = waiting.queue and last_known_at > statement_timestamp() - interval '10 minutes'
              order by 1) as pools,
       exists (select from wakeboard.pauses where scope in ('all', 'queue:' || waiting.queue)) as paused
  from wakeboard.backlog(%(queues)s, %(within_s)s, scan_limit => %(scan_limit)s) as waiting
"""


async def read_queues(conn: psycopg.AsyncConnection[Any], within_s: float) -> list[QueueRow]:
    """The queues by name, at most MAX_QUEUES. `within_s`: what becomes due within so many seconds is due soon."""
    queues = (await Listings(conn).queues())[:MAX_QUEUES]
    values = {"queues": queues, "within_s": within_s, "scan_limit": MAX_ROWS}
    return await read(conn, class_row(QueueRow), _QUEUES, values)


_BACKLOG: LiteralString = """
select date_bin(%(step)s, sampled_at, %(since)s), max(due)
  from wakeboard.backlog_samples
 where sampled_at >= %(since)s and sampled_at < %(until)s
 group by 1
"""


async def read_waiting(
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
